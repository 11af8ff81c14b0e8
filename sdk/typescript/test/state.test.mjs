import assert from 'node:assert/strict'
import { Atoll, ConflictError, NotFoundError, Sandbox } from '@atoll/sandbox'
import { proxy, sandboxFor, test } from './helpers.mjs'

const atoll = new Atoll()

async function all(items) {
  const list = []
  for await (const item of items) list.push(item)
  return list
}

test('pause and resume', async t => {
  const sandbox = await sandboxFor(t)
  await sandbox.runCode('x = 41')
  assert.equal((await sandbox.pause()).memory, 'frozen')
  assert.equal((await sandbox.info()).status, 'paused')
  assert.equal((await sandbox.resume()).restored, 'memory')
  assert.equal((await sandbox.runCode('x + 1')).text, '42')
  await sandbox.pause({ memory: false })
  const { restored, reason } = await sandbox.resume()
  assert.equal(restored, 'filesystem')
  assert.ok(reason)
})

test('snapshots', async t => {
  const sandbox = await sandboxFor(t)
  await sandbox.files.write('/workspace/notes', 'first')
  const snapshot = await sandbox.snapshot('first', { description: 'before', expiresIn: '1h' })
  t.after(() => atoll.snapshots.delete(snapshot.id).catch(() => undefined))
  assert.ok(snapshot.expiresAt > snapshot.createdAt)
  await sandbox.files.write('/workspace/notes', 'second')
  assert.deepEqual(
    (await sandbox.snapshots()).map(each => each.id),
    [snapshot.id]
  )
  const changes = await all(sandbox.diff({ from: snapshot.id }))
  assert.equal(changes.find(each => each.path === '/workspace/notes').change, 'changed')
  await assert.rejects(sandbox.restore(snapshot.id), ConflictError)
  await sandbox.restore(snapshot.id, { force: true })
  assert.equal(await sandbox.files.read('/workspace/notes'), 'first')
  const begun = await sandboxFor(t, { snapshotId: snapshot.id })
  assert.equal(await begun.files.read('/workspace/notes'), 'first')
  await atoll.snapshots.delete(snapshot.id)
  await assert.rejects(atoll.snapshots.get(snapshot.id), NotFoundError)
})

test('forks and trees', async t => {
  const parent = await sandboxFor(t)
  await parent.files.write('/workspace/notes', 'shared')
  const child = await parent.fork()
  const many = await parent.forkMany(2, { start: false })
  t.after(() => Promise.all([child, ...many].map(each => Sandbox.kill(each.id))))
  assert.equal(await child.files.read('/workspace/notes'), 'shared')
  assert.equal((await many[0].info()).status, 'paused')
  const nodes = await parent.tree()
  assert.deepEqual(
    nodes.map(node => node.id).sort(),
    [parent, child, ...many].map(each => each.id).sort()
  )
  assert.equal(nodes.find(node => node.id === child.id).parentId, parent.id)
  assert.ok((await atoll.snapshots.trees()).length >= 4)
})

test('a fork says which interpreters came along', async t => {
  const parent = await sandboxFor(t)
  await parent.runCode('x = 41')
  const child = await parent.fork({ memory: 'interpreters' })
  t.after(() => Sandbox.kill(child.id))
  const [python] = child.forkedInterpreters
  assert.equal(python.alias, 'python')
  assert.ok(python.carried, python.reason)
  const context = await child.attachContext(python.contextId)
  assert.equal((await context.run('x + 1')).text, '42')
  assert.deepEqual(parent.forkedInterpreters, [])
})

test('a restore whose answer is lost is not done twice', async t => {
  const sandbox = await sandboxFor(t)
  const snapshot = await sandbox.snapshot('before')
  t.after(() => atoll.snapshots.delete(snapshot.id).catch(() => undefined))
  let restores = 0
  const { url } = await proxy(t, ({ url }) => {
    if (!url.endsWith('/restore')) return 'pass'
    restores++
    return 'cut'
  })
  const through = await Sandbox.connect(sandbox.id, { url })
  await assert.rejects(through.restore(snapshot.id, { force: true }))
  assert.equal(restores, 1)
})

test('export and import', async t => {
  const sandbox = await sandboxFor(t)
  await sandbox.files.write('/workspace/notes', 'kept')
  const tar = Buffer.concat(await all(await sandbox.diffArchive()))
  assert.ok(tar.includes('workspace/notes'))
  const archive = await sandbox.export({ compression: 'none' })
  const snapshot = await atoll.snapshots.import(archive, { name: 'back' })
  t.after(() => atoll.snapshots.delete(snapshot.id))
  const begun = await sandboxFor(t, { snapshotId: snapshot.id })
  assert.equal(await begun.files.read('/workspace/notes'), 'kept')
})

test('volumes', async t => {
  const volume = await atoll.volumes.create({ accessMode: 'RWX', size: '1Gi' })
  t.after(() => volume.delete({ force: true }))
  await volume.files.write('/notes', 'without a sandbox')
  const snapshot = await volume.snapshot('before')
  const sandbox = await sandboxFor(t, { volumes: { '/workspace/data': volume } })
  assert.equal(await sandbox.files.read('/workspace/data/notes'), 'without a sandbox')
  assert.deepEqual((await volume.info()).mountedIn, [sandbox.id])
  await assert.rejects(volume.delete(), ConflictError)
  const reading = await sandboxFor(t, {
    volumes: { '/data': { volumeId: volume.id, readOnly: true } }
  })
  assert.notEqual((await reading.commands.run('touch /data/x', { user: 'root' })).exitCode, 0)
  await sandbox.kill()
  await reading.kill()
  await volume.files.write('/notes', 'changed')
  assert.deepEqual(
    (await volume.snapshots()).map(each => each.name),
    ['before']
  )
  await volume.restore(snapshot.id)
  assert.equal(await volume.files.read('/notes'), 'without a sandbox')
  const other = await volume.fork()
  t.after(() => other.delete())
  assert.equal(await other.files.read('/notes'), 'without a sandbox')
  const known = (await atoll.volumes.list()).map(each => each.id)
  assert.ok(known.includes(volume.id) && known.includes(other.id))
  await volume.deleteSnapshot(snapshot.id)
  await volume.delete()
  await assert.rejects(atoll.volumes.connect(volume.id), NotFoundError)
})
