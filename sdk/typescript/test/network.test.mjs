import assert from 'node:assert/strict'
import { Atoll, ConflictError, NotFoundError } from '@atoll/sandbox'
import { sandboxFor, test } from './helpers.mjs'

const atoll = new Atoll()

test('network policies and credentials', async t => {
  const name = 'sdk-typescript'
  const made = await atoll.credentials.create(name, { values: { token: 'secret' } })
  t.after(() => atoll.credentials.delete(name).catch(() => undefined))
  assert.equal(made.version, 1)
  assert.equal(made.status, 'active')
  assert.equal((await atoll.credentials.rotate(name, { values: { token: 'next' } })).version, 2)
  assert.equal((await atoll.credentials.get(name)).kind, 'static_headers')
  assert.ok((await atoll.credentials.list()).some(each => each.name === name))
  const sandbox = await sandboxFor(t, { network: { mode: 'block-all' } })
  assert.equal((await sandbox.network()).mode, 'block-all')
  const bound = await sandbox.setNetwork({
    mode: 'allow-all',
    credentialBindings: [
      {
        ref: 'r',
        sourceRef: name,
        projection: {
          type: 'http_headers',
          httpHeaders: { headers: [{ name: 'X-Key', valueTemplate: '{{ .token }}' }] }
        }
      }
    ]
  })
  assert.deepEqual(bound, await sandbox.network())
  await assert.rejects(atoll.credentials.delete(name), ConflictError)
  await sandbox.setNetwork({ mode: 'allow-all', credentialBindings: [] })
  await atoll.credentials.delete(name)
  await assert.rejects(atoll.credentials.get(name), NotFoundError)
})
