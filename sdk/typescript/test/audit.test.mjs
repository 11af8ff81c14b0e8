// Flows, usage, explanations and approvals of a server whose sandboxes sent nothing yet.
import assert from 'node:assert/strict'
import { Atoll, NotFoundError } from '@atoll/sandbox'
import { sandboxFor, test } from './helpers.mjs'

const atoll = new Atoll()

test('flows', async t => {
  const sandbox = await sandboxFor(t)
  assert.deepEqual(await sandbox.flows.list({ kind: 'flow' }), [])
  assert.equal((await sandbox.flows.usage()).flows, 0)
  const why = await sandbox.flows.why('169.254.169.254', 80)
  assert.equal(why.action, 'deny')
  assert.equal(why.origin, 'class')
  assert.deepEqual(await atoll.flows.list({ name: '*.nowhere.example', since: new Date(0) }), [])
})

test('approvals', async () => {
  assert.deepEqual(await atoll.approvals.list(), [])
  assert.deepEqual(await atoll.approvals.list({ state: 'all' }), [])
  await assert.rejects(atoll.approvals.allow('ap-1', { session: true }), NotFoundError)
  await assert.rejects(atoll.approvals.deny('ap-1'), NotFoundError)
})

test('following ends with the loop', async () => {
  const stop = new AbortController()
  setTimeout(() => stop.abort(), 200)
  const seen = []
  await assert.rejects(async () => {
    for await (const approval of atoll.approvals.follow({ signal: stop.signal })) seen.push(approval)
  })
  assert.deepEqual(seen, [])
})
