// Shared by the tests. They need a server: ATOLL_URL and ATOLL_API_KEY name it.
import { createServer } from 'node:http'
import { readFile } from 'node:fs/promises'
import { after, before, test as nodeTest } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Sandbox } from '@atoll/sandbox'

export const root = fileURLToPath(new URL('..', import.meta.url))

const HANGING_MS = 150_000

/** A test that ends: one that hangs would keep the report from naming it. */
export function test(name, run) {
  return nodeTest(name, { timeout: HANGING_MS }, run)
}

/** A sandbox for the time of a test. */
export async function sandboxFor(test, options = {}) {
  const sandbox = await Sandbox.create(options)
  test.after(() => Sandbox.kill(sandbox.id)) // not through a proxy that is gone by then
  return sandbox
}

/** One sandbox for all tests of a suite; `use` is given it before they run. */
export function sharedSandbox(use, options = {}) {
  let sandbox
  before(async () => {
    sandbox = await Sandbox.create(options)
    use(sandbox)
  })
  after(() => sandbox?.kill())
}

/** The code blocks of the README that begin with these words. */
export async function codeBlocks(info) {
  const text = await readFile(`${root}README.md`, 'utf8')
  return [...text.matchAll(/^```(.*)\n([^]*?)^```$/gm)]
    .filter(([, words]) => words === info || words.startsWith(`${info} `))
    .map(([, , code]) => code)
}

/** Repeats until the condition holds: for facts that nothing announces. */
export async function until(condition, what, milliseconds = 15_000) {
  const deadline = Date.now() + milliseconds
  for (;;) {
    const value = await condition()
    if (value) return value
    if (Date.now() > deadline) throw new Error(`still not so: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/**
 * A server between the client and the real one that does to each request what `decide` says:
 * 'pass', 'drop' (the connection breaks before the request gets through), 'cut' (it gets through,
 * its answer does not) or { cutAfter: bytes } (the answer breaks off).
 */
export async function proxy(test, decide) {
  const seen = []
  const target = process.env.ATOLL_URL
  const server = createServer(async (request, response) => {
    const pieces = []
    for await (const piece of request) pieces.push(piece)
    const key = request.headers['idempotency-key']
    const action = decide({ method: request.method, url: request.url, count: seen.length, key })
    seen.push({ method: request.method, url: request.url, key, action })
    if (action === 'drop') return request.socket.destroy()
    const { host, connection, 'transfer-encoding': _, ...headers } = request.headers
    const body = pieces.length > 0 ? Buffer.concat(pieces) : undefined
    const answer = await fetch(target + request.url, { method: request.method, headers, body })
    if (action === 'cut') {
      await answer.arrayBuffer()
      return request.socket.destroy()
    }
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    let left = action.cutAfter ?? Infinity
    for await (const piece of answer.body ?? []) {
      response.write(piece.subarray(0, left))
      left -= piece.length
      if (left <= 0) return setTimeout(() => request.socket.destroy(), 50)
    }
    response.end()
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  test.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${server.address().port}`, seen }
}
