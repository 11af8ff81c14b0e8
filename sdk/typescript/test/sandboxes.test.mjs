import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AtollError,
  Atoll,
  AuthenticationError,
  ConnectionError,
  InvalidRequestError,
  NotFoundError,
  Sandbox,
  TimeoutError
} from '@atoll/sandbox'
import { proxy, sandboxFor, until } from './helpers.mjs'

const gone = id => assert.rejects(Sandbox.connect(id), NotFoundError)

test('create with everything, info', async t => {
  const sandbox = await sandboxFor(t, {
    env: { STAGE: 'test' },
    labels: { project: 'demo' },
    ttl: '1h',
    hardTtl: 7200,
    resources: { memory: '512Mi', cpu: 0.5, disk: '1Gi' }
  })
  const info = await sandbox.info()
  assert.equal(info.id, sandbox.id)
  assert.equal(info.template, 'default')
  assert.equal(info.status, 'running')
  assert.deepEqual(info.labels, { project: 'demo' })
  assert.equal(info.resources.memory, '512Mi')
  const minutes = (info.expiresAt - Date.now()) / 60_000
  assert.ok(minutes > 55 && minutes < 61, `${minutes}`)
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

test('list pages through, with filters', async t => {
  const made = await Promise.all([1, 2, 3].map(() => sandboxFor(t)))
  const ids = []
  for await (const { id } of Sandbox.list({ status: 'running', pageSize: 2 })) ids.push(id)
  for (const { id } of made) assert.ok(ids.includes(id))
  assert.equal(new Set(ids).size, ids.length)
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

test('an aborted create leaves no sandbox behind', async () => {
  const label = `aborted-${process.pid}`
  const controller = new AbortController()
  const creating = Sandbox.create({ labels: { label }, signal: controller.signal })
  setTimeout(() => controller.abort(), 5)
  await assert.rejects(creating, { name: 'AbortError' })
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
    dockerfile: 'FROM default\nARG GREETING\nENV GREETING=$GREETING\nCOPY in/hello.txt /hello.txt\n',
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
