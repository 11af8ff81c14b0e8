import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { describe } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { ConflictError, NotFoundError, PermissionDeniedError, Sandbox } from '@atoll/sandbox'
import { proxy, sharedSandbox, test } from './helpers.mjs'

const MEBIBYTE = 1 << 20
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

describe('files', () => {
  let sandbox, files
  sharedSandbox(made => {
    sandbox = made
    files = made.files
  })

  test('text, in directories that did not exist', async () => {
    await files.write('deep/er/note.txt', 'é\n')
    assert.equal(await files.read('deep/er/note.txt'), 'é\n')
    assert.equal(await files.read('/workspace/deep/er/note.txt'), 'é\n')
  })

  test('every kind of contents, every format', async () => {
    const bytes = new Uint8Array(randomBytes(300_000))
    async function* pieces() {
      for (let i = 0; i < bytes.length; i += 70_000) yield bytes.subarray(i, i + 70_000)
    }
    const kinds = {
      bytes,
      buffer: bytes.buffer,
      blob: new Blob([bytes]),
      stream: new Blob([bytes]).stream(),
      pieces: pieces()
    }
    for (const [name, data] of Object.entries(kinds)) {
      await files.write(name, data)
      assert.deepEqual(await files.read(name, { format: 'bytes' }), bytes, name)
    }
    const blob = await files.read('bytes', { format: 'blob' })
    assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), bytes)
    let size = 0
    for await (const piece of await files.read('bytes', { format: 'stream' })) size += piece.length
    assert.equal(size, bytes.length)
  })

  test('ranges', async () => {
    await files.write('digits', '0123456789')
    assert.equal(await files.read('digits', { range: { start: 7 } }), '789')
    assert.equal(await files.read('digits', { range: { start: 2, end: 4 } }), '23')
  })

  test('stat, list, exists, move, chmod, makeDir, remove', async () => {
    await files.makeDir('tree/a')
    await files.makeDir('tree/a')
    await files.write('tree/run', '#!/bin/sh\n', { mode: 0o755 })
    await sandbox.commands.run('ln -s run tree/link')
    const info = await files.stat('tree/run')
    assert.deepEqual([info.name, info.type, info.size, info.mode], ['run', 'file', 10, '0755'])
    assert.ok(Math.abs(info.modifiedAt - Date.now()) < 60_000)
    const listed = (await files.list('tree')).map(each => [each.name, each.type, each.target])
    assert.deepEqual(listed.sort(), [
      ['a', 'directory', undefined],
      ['link', 'symlink', 'run'],
      ['run', 'file', undefined]
    ])
    await files.move('tree/run', 'tree/a/run')
    assert.equal(await files.exists('tree/run'), false)
    assert.equal(await files.exists('tree/a/run'), true)
    await files.remove('tree')
    assert.equal(await files.exists('tree'), false)
  })

  test('versions keep writers from overwriting each other', async () => {
    const first = await files.write('shared', 'one', { ifAbsent: true })
    assert.equal(first.version, await files.version('shared'))
    await assert.rejects(files.write('shared', 'two', { ifAbsent: true }), ConflictError)
    const second = await files.write('shared', 'two', { ifVersion: first.version })
    assert.notEqual(second.version, first.version)
    await assert.rejects(
      files.write('shared', 'three', { ifVersion: first.version }),
      ConflictError
    )
    assert.equal(await files.read('shared'), 'two')
  })

  test('watch: recursive, new directories, ended in every way', async () => {
    await files.makeDir('watched')
    const watch = await files.watch('watched', { recursive: true })
    const events = watch[Symbol.asyncIterator]()
    const see = async (type, path) => {
      for (;;) {
        const { value, done } = await events.next()
        assert.ok(!done)
        if (value.type === type && value.path === path) return
      }
    }
    await files.write('watched/a', '1')
    await see('create', '/workspace/watched/a')
    await files.write('watched/new/deep/b', '1')
    await see('create', '/workspace/watched/new/deep/b')
    await files.remove('watched/a')
    await see('remove', '/workspace/watched/a')
    const pending = events.next()
    watch.close()
    assert.equal((await pending).done, true)
    for await (const _ of await watchAnd(() => files.write('watched/c', ''))) break
    const controller = new AbortController()
    const aborted = await files.watch('watched', { signal: controller.signal })
    setTimeout(() => controller.abort(), 20)
    await assert.rejects(
      async () => {
        for await (const _ of aborted);
      },
      { name: 'AbortError' }
    )
  })

  const watchAnd = async change => {
    const watch = await files.watch('watched')
    await change()
    return watch
  }

  test('glob and grep', async () => {
    await files.write('code/a.py', 'import os\n# TODO one\nx = 1\n')
    await files.write('code/sub/b.py', 'nothing\n')
    await files.write('code/sub/c.txt', 'todo two\n')
    await files.write('code/skip/d.py', 'TODO never\n')
    const { entries, truncated } = await files.glob('**/*.py', { path: 'code', exclude: ['skip'] })
    assert.deepEqual(entries.map(each => each.path).sort(), [
      '/workspace/code/a.py',
      '/workspace/code/sub/b.py'
    ])
    assert.equal(truncated, false)
    const all = await files.grep('todo (one|two)', { path: 'code', ignoreCase: true })
    assert.deepEqual(all.matches.map(each => [each.path, each.line, each.text]).sort(), [
      ['/workspace/code/a.py', 2, '# TODO one'],
      ['/workspace/code/sub/c.txt', 1, 'todo two']
    ])
    const near = await files.grep('TODO one', { path: 'code', context: 1, fixed: true })
    assert.deepEqual(
      near.matches.map(each => each.isContext),
      [true, false, true]
    )
    const few = await files.glob('**', { path: 'code', maxResults: 1 })
    assert.equal(few.entries.length, 1)
    assert.equal(few.truncated, true)
  })

  test('a tree out and in again as tar', async () => {
    await files.write('origin/x/run', '#!/bin/sh\necho hi\n', { mode: 0o755 })
    await sandbox.commands.run('ln -s run origin/x/link')
    for (const format of ['tar', 'tar.gz']) {
      const counts = await files.uploadArchive(
        `into-${format}`,
        await files.downloadArchive('origin', { format })
      )
      assert.equal(counts.files, 1)
      const { stdout } = await sandbox.commands.run(
        `cd into-${format} && find . -name link -exec {} \\;`
      )
      assert.equal(stdout, 'hi\n')
    }
  })

  test('errors say which', async () => {
    await assert.rejects(files.read('absent'), error => {
      assert.ok(error instanceof NotFoundError)
      assert.equal(error.code, 'file_not_found')
      assert.equal(error.status, 404)
      assert.match(error.requestId, /^[0-9a-f]+$/)
      return true
    })
    await assert.rejects(files.write('/etc/shadow', 'x', { user: 'user' }), PermissionDeniedError)
    await assert.rejects(files.read('/tmp'), ConflictError)
  })

  test('200 MiB up and down without holding them', async () => {
    const total = 200
    const piece = new Uint8Array(randomBytes(MEBIBYTE))
    const up = createHash('sha256')
    const down = createHash('sha256')
    let peak = 0
    const measure = () => {
      collectGarbage() // what is left is held by somebody
      peak = Math.max(peak, process.memoryUsage().external)
    }
    async function* pieces() {
      for (let i = 0; i < total; i++) {
        piece[0] = i
        up.update(piece)
        if (i % 10 === 0) measure()
        yield piece.slice()
      }
    }
    measure()
    const before = peak
    await files.write('big', pieces())
    assert.equal((await files.stat('big')).size, total * MEBIBYTE)
    let next = 0
    let size = 0
    for await (const bytes of await files.read('big', { format: 'stream' })) {
      down.update(bytes)
      size += bytes.length
      if (size < next) continue
      measure()
      next += 10 * MEBIBYTE
    }
    assert.equal(size, total * MEBIBYTE)
    assert.equal(down.digest('hex'), up.digest('hex'))
    const grown = (peak - before) / MEBIBYTE
    assert.ok(grown < 20, `${grown.toFixed()} MiB were held`)
  })

  test('leaving a download early, or aborting it, ends it', async () => {
    await sandbox.commands.run('truncate -s 5G sparse')
    for await (const piece of await files.read('sparse', { format: 'stream' })) {
      assert.ok(piece.length > 0)
      break
    }
    const controller = new AbortController()
    const stream = await files.read('sparse', { format: 'stream', signal: controller.signal })
    const reader = stream.getReader()
    await reader.read()
    controller.abort(new Error('enough'))
    await assert.rejects(async () => {
      for (;;) await reader.read()
    }, /enough/)
  })

  test('an upload that breaks leaves no half file, and one from memory is sent again', async t => {
    async function* broken() {
      yield new Uint8Array(1000)
      throw new Error('disk gone')
    }
    await assert.rejects(files.write('half', broken()))
    assert.equal(await files.exists('half'), false)
    const { url, seen } = await proxy(t, ({ method }) =>
      method === 'POST' && !seen.some(each => each.method === 'POST') ? 'drop' : 'pass'
    )
    const through = await Sandbox.connect(sandbox.id, { url })
    await through.files.write('again', 'whole')
    assert.equal(await files.read('again'), 'whole')
  })
})
