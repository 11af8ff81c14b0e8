// Runs one function of a sandbox in node: see python_worker.py, which does the same.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const Module = require('module');

const MAX_BODY = 9 * 1024 * 1024;
const MAX_MESSAGE = 16 * 1024 * 1024;
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

async function load(config) {
  let exported;
  if (/^\s*(export|import)\s/m.test(config.code)) {
    exported = await import('data:text/javascript;base64,' +
                            Buffer.from(config.code).toString('base64'));
  } else {
    const name = process.cwd() + '/function.js';
    const module = new Module(name);
    module.filename = name;
    module.paths = Module._nodeModulePaths(process.cwd());
    const tail = `\n;if (typeof ${config.handler} === 'function' && !exports.${config.handler} && ` +
                 `typeof module.exports !== 'function') exports.${config.handler} = ${config.handler};`;
    module._compile(config.code + tail, name);
    exported = module.exports;
  }
  const handler = exported[config.handler] || exported.default || exported;
  if (typeof handler !== 'function') {
    throw new Error(`the code has no function called ${config.handler}`);
  }
  return handler;
}

// What a handler gets as its second argument for a WebSocket.
class Socket {
  constructor(stream, rest) {
    this.stream = stream;
    this.input = rest;
    this.queue = [];
    this.waiting = [];
    this.closed = false;
    this.parts = [];
    stream.on('data', (data) => { this.input = Buffer.concat([this.input, data]); this.parse(); });
    stream.on('close', () => this.finish());
    stream.on('error', () => this.finish());
    this.parse();
  }
  finish() {
    this.closed = true;
    for (const resolve of this.waiting.splice(0)) resolve(null);
  }
  parse() {
    while (this.input.length >= 2) {
      let size = this.input[1] & 0x7f, at = 2;
      if (size === 126) { if (this.input.length < 4) return; size = this.input.readUInt16BE(2); at = 4; }
      else if (size === 127) {
        if (this.input.length < 10) return;
        size = Number(this.input.readBigUInt64BE(2)); at = 10;
      }
      if (size > MAX_MESSAGE) { this.stream.destroy(); return; }
      const masked = this.input[1] & 0x80;
      const begin = at + (masked ? 4 : 0);
      if (this.input.length < begin + size) return;
      const data = Buffer.from(this.input.subarray(begin, begin + size));
      if (masked) for (let i = 0; i < size; i++) data[i] ^= this.input[at + (i & 3)];
      const opcode = this.input[0] & 0x0f, last = this.input[0] & 0x80;
      this.input = this.input.subarray(begin + size);
      this.take(opcode, last, data);
    }
  }
  take(opcode, last, data) {
    if (opcode === 8) { this.frame(8, data.subarray(0, 2)); this.finish(); this.stream.end(); return; }
    if (opcode === 9) { this.frame(10, data); return; }
    if (opcode > 2) return;
    if (opcode) this.kind = opcode;
    this.parts.push(data);
    if (!last) return;
    const whole = Buffer.concat(this.parts);
    this.parts = [];
    const message = this.kind === 1 ? whole.toString() : whole;
    const resolve = this.waiting.shift();
    if (resolve) resolve(message); else this.queue.push(message);
  }
  frame(opcode, data) {
    const head = data.length < 126 ? Buffer.from([0x80 | opcode, data.length])
      : data.length < 65536 ? Buffer.from([0x80 | opcode, 126, data.length >> 8, data.length & 255])
      : Buffer.concat([Buffer.from([0x80 | opcode, 127]), Buffer.alloc(8)]);
    if (data.length >= 65536) head.writeBigUInt64BE(BigInt(data.length), 2);
    return new Promise((resolve) => this.stream.write(Buffer.concat([head, data]), resolve));
  }
  send(message) {
    if (Buffer.isBuffer(message) || message instanceof Uint8Array) {
      return this.frame(2, Buffer.from(message));
    }
    return this.frame(1, Buffer.from(typeof message === 'string' ? message : JSON.stringify(message)));
  }
  recv() {
    if (this.queue.length) return Promise.resolve(this.queue.shift());
    if (this.closed) return Promise.resolve(null);
    return new Promise((resolve) => this.waiting.push(resolve));
  }
  async close(code = 1000) {
    if (this.closed) return;
    this.closed = true;
    await this.frame(8, Buffer.from([code >> 8, code & 255]));
    this.stream.end();
  }
  async *[Symbol.asyncIterator]() {
    for (let message = await this.recv(); message !== null; message = await this.recv()) yield message;
  }
}

function read(request) {
  return new Promise((resolve, reject) => {
    const parts = [];
    let total = 0;
    request.on('data', (part) => {
      total += part.length;
      if (total > MAX_BODY) reject(new Error('the request is too large')); else parts.push(part);
    });
    request.on('end', () => resolve(Buffer.concat(parts)));
    request.on('error', reject);
  });
}

function describe(config, request, body) {
  const headers = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (!name.startsWith('x-atoll-')) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  const [path, ...query] = request.url.split('?');
  return {service_id: config.service_id, route_id: request.headers['x-atoll-route'] || '',
          method: request.method, path, raw_query: query.join('?'), headers,
          body_base64: body.toString('base64')};
}

const isStream = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) &&
  (typeof value[Symbol.asyncIterator] === 'function' || typeof value.next === 'function');

async function send(response, result) {
  const shaped = result !== null && typeof result === 'object' && !Array.isArray(result) &&
    !Buffer.isBuffer(result) && Object.keys(result).length > 0 &&
    Object.keys(result).every((k) => ['status', 'headers', 'body', 'body_base64'].includes(k));
  const headers = {};
  for (const [name, value] of Object.entries((shaped && result.headers) || {})) {
    const lower = name.toLowerCase();
    if (!['content-length', 'transfer-encoding', 'connection'].includes(lower)) headers[lower] = value;
  }
  let body = shaped ? (result.body_base64 !== undefined ? Buffer.from(result.body_base64, 'base64')
                                                        : result.body) : result;
  const type = (kind) => { if (!headers['content-type']) headers['content-type'] = kind; };
  const status = shaped ? result.status || 200 : 200;
  if (isStream(body)) {
    type('text/event-stream');
    response.writeHead(status, headers);
    response.flushHeaders();
    for await (const piece of body) {
      const bytes = typeof piece === 'string' || piece instanceof Uint8Array ? piece : JSON.stringify(piece);
      if (!response.write(bytes)) await new Promise((resolve) => response.once('drain', resolve));
    }
    response.end();
    return;
  }
  if (body instanceof Uint8Array) { type('application/octet-stream'); body = Buffer.from(body); }
  else if (shaped && typeof body === 'string') { type('text/plain; charset=utf-8'); body = Buffer.from(body); }
  else if (shaped && body === undefined) body = Buffer.alloc(0);
  else { type('application/json'); body = Buffer.from(JSON.stringify(body === undefined ? null : body)); }
  headers['content-length'] = body.length;
  response.writeHead(status, headers);
  response.end(body);
}

async function serve(config, handler, request, response) {
  if (request.headers['x-atoll-ping']) { response.writeHead(204); response.end(); return; }
  const timeout = Number(request.headers['x-atoll-timeout-ms'] || 30000);
  try {
    const described = describe(config, request, await read(request));
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(Object.assign(new Error('late'), {late: true})), timeout);
    });
    const result = await Promise.race([Promise.resolve().then(() => handler(described)), late]);
    clearTimeout(timer);
    await send(response, result);
  } catch (error) {
    console.error(error.late ? `the function took longer than ${timeout} ms` : error);
    if (response.headersSent) { response.destroy(); return; }
    await send(response, error.late ? {status: 504, body: 'the function took too long'}
                                    : {status: 500, body: 'the function failed'});
  }
}

async function upgrade(config, handler, request, stream, rest) {
  if (handler.length < 2) {
    stream.end('HTTP/1.1 426 Function\r\ncontent-length: 33\r\nconnection: close\r\n\r\n' +
               'this function takes no WebSockets');
    return;
  }
  const accept = crypto.createHash('sha1').update(request.headers['sec-websocket-key'] + GUID).digest('base64');
  stream.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n' +
               `sec-websocket-accept: ${accept}\r\n\r\n`);
  const socket = new Socket(stream, rest);
  try {
    await handler(describe(config, request, Buffer.alloc(0)), socket);
    await socket.close(1000);
  } catch (error) {
    console.error(error);
    await socket.close(1011);
  }
}

async function main() {
  const config = CONFIG;
  const handler = await load(config);
  const server = http.createServer((request, response) => serve(config, handler, request, response));
  server.keepAliveTimeout = 60000;
  server.requestTimeout = 0;
  server.on('upgrade', (request, stream, rest) => upgrade(config, handler, request, stream, rest));
  server.listen(0, '127.0.0.1', () => fs.writeSync(3, `${server.address().port}\n`));
}
process.on('unhandledRejection', (error) => console.error(error));
main().catch((error) => { console.error(error); process.exit(1); });
