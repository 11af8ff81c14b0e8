import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  AtollError,
  Atoll,
  AuthenticationError,
  ConflictError,
  ConnectionError,
  InvalidRequestError,
  NotFoundError,
  Sandbox,
  TimeoutError
} from '@atoll/sandbox'
import { proxy, sandboxFor, test, until } from './helpers.mjs'

const gone = id => assert.rejects(Sandbox.connect(id), NotFoundError)

test('create with everything, info', async t => {
  const sandbox = await sandboxFor(t, {
    env: { STAGE: 'test' },
    labels: { project: 'demo' },
    name: `full-${process.pid}`,
    ttl: '1h',
    hardTtl: 7200,
    idleTtl: '30m',
    resources: { memory: '512Mi', cpu: 0.5, disk: '1Gi' }
  })
  const info = await sandbox.info()
  assert.equal(info.id, sandbox.id)
  assert.equal(info.template, 'default')
  assert.equal(info.status, 'running')
  assert.equal(info.name, `full-${process.pid}`)
  assert.deepEqual(info.labels, { project: 'demo' })
  assert.equal(info.resources.memory, '512Mi')
  const minutes = (info.expiresAt - Date.now()) / 60_000
  assert.ok(minutes > 55 && minutes < 61, `${minutes}`)
  assert.ok(info.idleExpiresAt < info.expiresAt && info.expiresAt < info.hardExpiresAt)
  assert.equal((await sandbox.commands.run('echo $STAGE')).stdout, 'test\n')
})

test('with deletes at the end and when something throws', async () => {
  let id
  const value = await Sandbox.with(sandbox => (id = sandbox.id) && 5)
  assert.equal(value, 5)
  await gone(id)
  const failing = Sandbox.with({ labels: { a: 'b' } }, sandbox => {
    id = sandbox.id
    throw new RangeError('mine')
  })
  await assert.rejects(failing, RangeError)
  await gone(id)
})

test('dispose deletes what create made and leaves what connect found', async t => {
  const made = await sandboxFor(t)
  const found = await Sandbox.connect(made.id)
  await found[Symbol.asyncDispose]()
  assert.equal((await made.info()).status, 'running')
  await made[Symbol.asyncDispose]()
  await gone(made.id)
  await made.kill()
})

test('update applies at once, refresh starts the times again', async t => {
  const sandbox = await sandboxFor(t, { ttl: '10m', env: { A: 'old' } })
  const before = (await sandbox.info()).expiresAt
  const info = await sandbox.update({
    env: { A: 'new' },
    labels: { stage: 'two' },
    resources: { memory: '768Mi' }
  })
  assert.deepEqual([info.labels.stage, info.resources.memory], ['two', '768Mi'])
  assert.equal((await sandbox.commands.run('echo $A')).stdout, 'new\n')
  await sandbox.refresh('2h')
  assert.ok((await sandbox.info()).expiresAt - before > 3600_000)
})

test('metrics say what it uses', async t => {
  const sandbox = await sandboxFor(t, { resources: { memory: '512Mi' } })
  const { now, series } = await sandbox.metrics()
  assert.ok(now.memoryBytes > 0 && now.memoryBytes < now.memoryLimitBytes)
  assert.equal(now.memoryLimitBytes, 512 * 1024 * 1024)
  assert.ok(now.processCount >= 1 && now.time instanceof Date)
  assert.ok(Array.isArray(series))
  const one = await sandbox.metrics({ names: ['sandbox.memory.usage'] })
  assert.ok(one.series.every(each => each.name === 'sandbox.memory.usage'))
})

test('a name is found again, by whoever asks', async t => {
  const name = `shared-${process.pid}`
  const [one, two] = await Promise.all([Sandbox.getOrCreate(name), Sandbox.getOrCreate(name)])
  t.after(() => one.kill())
  assert.equal(one.id, two.id)
  await assert.rejects(Sandbox.create({ name }), ConflictError)
  await two[Symbol.asyncDispose]()
  assert.equal((await one.info()).name, name)
})

test('many at once', async t => {
  const label = `many-${process.pid}`
  const many = await Sandbox.createMany(3, { labels: { label } })
  t.after(() => Promise.all(many.map(each => each.kill())))
  assert.equal(new Set(many.map(each => each.id)).size, 3)
  const listed = []
  for await (const { id } of Sandbox.list({ labels: { label }, pageSize: 2 })) listed.push(id)
  assert.deepEqual(listed.sort(), many.map(each => each.id).sort())
  await assert.rejects(Sandbox.createMany(100_000), InvalidRequestError)
})

test('list filters by name, prefix, template and status', async t => {
  const name = `find-${process.pid}`
  const sandbox = await sandboxFor(t, { name })
  for (const filter of [{ name }, { namePrefix: `find-${process.pid}` }]) {
    const found = []
    for await (const { id } of Sandbox.list({ ...filter, template: 'default' })) found.push(id)
    assert.deepEqual(found, [sandbox.id])
  }
  for await (const _ of Sandbox.list({ status: 'failed' })) assert.fail('none has failed')
})

test('errors have a class, a code and the id of the request', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'wrong' }), error => {
    assert.ok(error instanceof AuthenticationError && error instanceof AtollError)
    assert.equal(error.status, 401)
    assert.match(error.requestId, /^[0-9a-f]+$/)
    return true
  })
  await assert.rejects(Sandbox.create({ template: 'no-such' }), AtollError)
  await assert.rejects(Sandbox.create({ resources: { memory: 'lots' } }), InvalidRequestError)
  await assert.rejects(Sandbox.create({ url: 'http://127.0.0.1:1', retries: 0 }), error => {
    assert.ok(error instanceof ConnectionError)
    assert.match(error.message, /atoll serve/)
    return true
  })
  await assert.rejects(Sandbox.create({ ttl: 'soon' }), TypeError)
})

test('the key comes from a file, and a local one goes only to a local server', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'atoll-key-'))
  t.after(() => rm(folder, { recursive: true }))
  const { ATOLL_API_KEY: key } = process.env
  await writeFile(join(folder, 'admin.key'), `${key}\n`)
  t.after(() => (process.env.ATOLL_API_KEY = key))
  delete process.env.ATOLL_API_KEY
  if (process.getBuiltinModule === undefined) return t.skip('this Node has no way to files')
  process.env.ATOLL_DATA_DIR = folder
  t.after(() => delete process.env.ATOLL_DATA_DIR)
  assert.ok(await new Atoll().templates.get('default'))
  const sent = []
  const fetch = async (_, { headers }) =>
    sent.push(headers.authorization) && new Response('{"data":{}}')
  await new Atoll({ url: 'http://atoll.example', fetch }).sandboxes.kill('x')
  assert.deepEqual(sent, [undefined])
  process.env.ATOLL_KEY_FILE = join(folder, 'admin.key')
  t.after(() => delete process.env.ATOLL_KEY_FILE)
  await new Atoll({ url: 'http://atoll.example', fetch }).sandboxes.kill('x')
  assert.deepEqual(sent[1], `Bearer ${key}`)
})

test('a create whose answer is lost makes one sandbox', async t => {
  let cut = 0
  const { url, seen } = await proxy(t, ({ method }) =>
    method === 'POST' && cut++ < 2 ? (cut === 1 ? 'cut' : 'drop') : 'pass'
  )
  const label = `once-${process.pid}`
  const sandbox = await sandboxFor(t, { url, labels: { label } })
  assert.equal(seen.length, 3)
  assert.equal(new Set(seen.map(each => each.key)).size, 1)
  const all = []
  for await (const each of Sandbox.list()) if (each.labels.label === label) all.push(each.id)
  assert.deepEqual(all, [sandbox.id])
})

test('requests that are not safe are not sent again', async t => {
  const sandbox = await sandboxFor(t)
  const { url, seen } = await proxy(t, ({ url }) => (url.endsWith('/move') ? 'drop' : 'pass'))
  const through = await Sandbox.connect(sandbox.id, { url })
  await assert.rejects(through.files.move('a', 'b'), ConnectionError)
  assert.equal(seen.filter(each => each.url.endsWith('/move')).length, 1)
})

test('a server that does not answer in time', async t => {
  const { createServer } = await import('node:net')
  const silent = createServer(() => {})
  await new Promise(resolve => silent.listen(0, '127.0.0.1', resolve))
  t.after(() => silent.close())
  const url = `http://127.0.0.1:${silent.address().port}`
  const call = new Atoll({ url, requestTimeoutMs: 100, retries: 0 }).sandboxes.connect('x')
  await assert.rejects(call, TimeoutError)
})

test('an aborted create leaves no sandbox behind', async t => {
  const label = `aborted-${process.pid}`
  const controller = new AbortController()
  // The request is on its way to the server when it is aborted, and is answered afterwards.
  const { url, seen } = await proxy(t, ({ method }) => {
    if (method === 'POST') controller.abort()
    return 'pass'
  })
  const creating = Sandbox.create({ url, labels: { label }, signal: controller.signal })
  await assert.rejects(creating, { name: 'AbortError' })
  await until(() => seen.some(each => each.method === 'DELETE'), 'it is being deleted')
  const left = async () => {
    for await (const each of Sandbox.list()) if (each.labels.label === label) return true
    return false
  }
  await until(async () => !(await left()), 'the sandbox is gone')
})

test('templates: list, build, failing build, delete', async t => {
  const { templates } = new Atoll()
  assert.ok((await templates.list()).some(each => each.id === 'default' && each.builtin))
  const id = `sdk-${process.pid}`
  t.after(() => templates.delete(id).catch(() => {}))
  const steps = []
  const built = await templates.build(id, {
    dockerfile:
      'FROM default\nARG GREETING\nENV GREETING=$GREETING\nCOPY in/hello.txt /hello.txt\n',
    context: { 'in/hello.txt': 'hello\n' },
    args: { GREETING: 'hi there' },
    onLog: event => void (event.type === 'step' && steps.push(event.text))
  })
  assert.equal(built.state, 'ready')
  assert.ok(steps.length >= 3, steps.join())
  await Sandbox.with({ template: id }, async sandbox => {
    const { stdout } = await sandbox.commands.run('cat /hello.txt; echo $GREETING')
    assert.equal(stdout, 'hello\nhi there\n')
  })
  await assert.rejects(
    templates.build(id, { dockerfile: 'FROM default\nCOPY absent /\n' }),
    error => error.name === 'BuildError' && error.line === 2
  )
  await templates.delete(id)
  await assert.rejects(templates.get(id), NotFoundError)
})
