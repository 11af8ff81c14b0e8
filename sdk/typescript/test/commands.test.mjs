import assert from 'node:assert/strict'
import { describe } from 'node:test'
import { CommandError, Sandbox } from '@atoll/sandbox'
import { proxy, sharedSandbox, test, until } from './helpers.mjs'

describe('commands', () => {
  let sandbox
  sharedSandbox(made => (sandbox = made))
  const runs = async pattern => {
    const { stdout } = await sandbox.commands.run(`pgrep -fc '${pattern}'`)
    return Number(stdout) > 0
  }

  test('a command completes with output, streams apart', async () => {
    const result = await sandbox.commands.run('echo out; echo err >&2; exit 3')
    assert.equal(result.outcome, 'completed')
    assert.equal(result.exitCode, 3)
    assert.equal(result.ok, false)
    assert.equal(result.stdout, 'out\n')
    assert.equal(result.stderr, 'err\n')
  })

  test('an array is a program, without a shell', async () => {
    const { stdout } = await sandbox.commands.run(['echo', '$HOME; *'])
    assert.equal(stdout, '$HOME; *\n')
  })

  test('cwd, env, user', async () => {
    const { stdout } = await sandbox.commands.run('pwd; echo $A; id -un', {
      cwd: '/tmp',
      env: { A: 'b' },
      user: 'root'
    })
    assert.equal(stdout, '/tmp\nb\nroot\n')
  })

  test('every other outcome is typed', async () => {
    const late = await sandbox.commands.run('echo early; sleep 60', { timeoutMs: 400 })
    assert.equal(late.outcome, 'timed_out')
    assert.equal(late.stdout, 'early\n')
    const killed = await sandbox.commands.run('kill -KILL $$')
    assert.equal(killed.outcome, 'killed')
    assert.equal(killed.signal, 9)
    const absent = await sandbox.commands.run(['no-such-program'])
    assert.equal(absent.outcome, 'never_started')
    assert.equal(absent.error.reason, 'command_not_found')
    const nowhere = await sandbox.commands.run('true', { cwd: '/no/such' })
    assert.equal(nowhere.outcome, 'never_started')
  })

  test('check throws, with the result', async () => {
    await assert.rejects(sandbox.commands.run('echo why >&2; false', { check: true }), error => {
      assert.ok(error instanceof CommandError)
      assert.equal(error.result.exitCode, 1)
      assert.match(error.message, /exited with 1: why/)
      return true
    })
    assert.equal((await sandbox.commands.run('true', { check: true })).ok, true)
  })

  test('output arrives in order while the command runs', async () => {
    const seen = []
    // Each line is printed only after the one before has been seen here.
    const command = await sandbox.commands.start('while read line; do echo "got $line"; done', {
      stdin: true
    })
    await command.write('0\n')
    for await (const { text, stream } of command) {
      assert.equal(stream, 'stdout')
      seen.push(text)
      if (seen.length < 20) await command.write(`${seen.length}\n`)
      else await command.closeStdin()
    }
    assert.deepEqual(
      seen,
      Array.from({ length: 20 }, (_, i) => `got ${i}\n`)
    )
  })

  test('callbacks see every byte once, in order, and characters whole', async () => {
    let text = ''
    const { stdout } = await sandbox.commands.run(
      `python3 -c "
import sys
for i in range(200000): sys.stdout.write('%d é\\n' % i)"`,
      { onStdout: piece => void (text += piece) }
    )
    assert.equal(text, Array.from({ length: 200_000 }, (_, i) => `${i} é\n`).join(''))
    assert.equal(stdout, text)
  })

  test('an asynchronous callback is waited for', async () => {
    let running = 0
    await sandbox.commands.run('for i in 1 2 3 4 5; do echo $i; done', {
      onStdout: async () => {
        assert.equal(++running, 1)
        await new Promise(setImmediate)
        running--
      }
    })
  })

  test('output beyond the limit is cut in the result only', async () => {
    let bytes = 0
    const result = await sandbox.commands.run('head -c 300000 /dev/zero', {
      maxOutputBytes: 1000,
      onStdout: (_, piece) => void (bytes += piece.length)
    })
    assert.equal(bytes, 300_000)
    assert.equal(result.stdout.length, 1000)
    assert.equal(result.truncated, true)
  })

  test('a slow reader loses nothing', async () => {
    const script = 'echo ready; read go; head -c 8000000 /dev/zero'
    const command = await sandbox.commands.start(script, { stdin: true })
    let bytes = 0
    for await (const piece of command) {
      if (piece.text === 'ready\n') {
        await command.write('go\n')
        await new Promise(resolve => setTimeout(resolve, 500)) // slow for once
      }
      bytes += piece.bytes.length
    }
    assert.equal(bytes, 8_000_006)
  })

  test('stdin: text, bytes, async iterables, and more than any buffer', async () => {
    const count = async stdin => (await sandbox.commands.run('sha256sum', { stdin })).stdout
    const text = 'é'.repeat(700_000)
    const expected = await count(text)
    assert.equal(await count(new TextEncoder().encode(text)), expected)
    async function* pieces() {
      for (let i = 0; i < 7; i++) yield 'é'.repeat(100_000)
    }
    assert.equal(await count(pieces()), expected)
    assert.equal((await sandbox.commands.run('true', { stdin: text })).ok, true)
  })

  test('an input that throws ends the command', async () => {
    async function* broken() {
      yield 'a'
      throw new RangeError('no more')
    }
    await assert.rejects(sandbox.commands.run('cat; sleep 1001', { stdin: broken() }), RangeError)
    await until(async () => !(await runs('sleep [1]001')), 'the command has ended')
  })

  test('abort rejects with its reason and ends the command on the server', async () => {
    const controller = new AbortController()
    const why = new Error('changed my mind')
    const running = sandbox.commands.run('echo on; sleep 1002', {
      signal: controller.signal,
      onStdout: () => controller.abort(why)
    })
    await assert.rejects(running, error => error === why)
    await until(async () => !(await runs('sleep [1]002')), 'the command has ended')
  })

  test('abort before and just after the start leaves nothing behind', async () => {
    await assert.rejects(sandbox.commands.run('sleep 1003', { signal: AbortSignal.abort() }), {
      name: 'AbortError'
    })
    const controller = new AbortController()
    const running = sandbox.commands.run('sleep 1003', { signal: controller.signal })
    queueMicrotask(() => controller.abort())
    await assert.rejects(running, { name: 'AbortError' })
    await until(async () => !(await runs('sleep [1]003')), 'the command has ended')
  })

  test('a callback that throws ends the command', async () => {
    const running = sandbox.commands.run('echo on; sleep 1004', {
      onStdout: () => {
        throw new SyntaxError('mine')
      }
    })
    await assert.rejects(running, SyntaxError)
    await until(async () => !(await runs('sleep [1]004')), 'the command has ended')
  })

  test('a handle: signal, wait, info, kill of what has ended', async () => {
    const command = await sandbox.commands.start(
      'trap "echo bye; exit 7" INT; echo up; while :; do sleep 0.05; done'
    )
    for await (const { text } of command) {
      assert.equal(text, 'up\n')
      break
    }
    assert.equal((await command.info()).running, true)
    assert.ok((await sandbox.commands.list()).some(each => each.id === command.id && each.running))
    await command.signal('INT')
    const result = await command.wait()
    assert.equal(result.outcome, 'completed')
    assert.equal(result.exitCode, 7)
    assert.equal(result.stdout, 'bye\n')
    await command.kill()
  })

  test('attach continues at a cursor, from another client too', async () => {
    const command = await sandbox.commands.start('echo one; read x; echo two', { stdin: true })
    for await (const { text } of command) {
      assert.equal(text, 'one\n')
      break
    }
    const elsewhere = await Sandbox.connect(sandbox.id)
    const again = await elsewhere.commands.attach(command.id, { from: command.cursor })
    await again.write('\n')
    assert.equal((await again.wait()).stdout, 'two\n')
    const whole = await elsewhere.commands.attach(command.id)
    assert.equal((await whole.wait()).stdout, 'one\ntwo\n')
  })

  test('a stream that breaks is taken up where it broke', async t => {
    let cuts = 0
    const { url, seen } = await proxy(t, ({ url }) =>
      url.includes('/stream') && cuts++ < 3 ? { cutAfter: 200_000 } : 'pass'
    )
    const through = await Sandbox.connect(sandbox.id, { url })
    const command = await through.commands.start('seq 1 150000')
    assert.equal(
      (await command.wait()).stdout,
      Array.from({ length: 150_000 }, (_, i) => `${i + 1}\n`).join('')
    )
    assert.ok(seen.filter(each => each.url.includes('/stream')).length >= 4)
  })

  test('a start whose answer is lost is not done twice', async t => {
    let cut = false
    const { url } = await proxy(t, ({ method, url }) => {
      const first = method === 'POST' && url.endsWith('/contexts') && !cut
      cut ||= first
      return first ? 'cut' : 'pass'
    })
    const through = await Sandbox.connect(sandbox.id, { url })
    const result = await through.commands.run('echo once | tee -a /tmp/once')
    assert.equal(result.stdout, 'once\n')
    assert.equal(await sandbox.files.read('/tmp/once'), 'once\n')
  })

  test('await using ends a background command', async () => {
    const command = await sandbox.commands.start('sleep 1005')
    await command[Symbol.asyncDispose]()
    assert.equal((await command.wait()).outcome, 'killed')
  })
})

describe('terminals', () => {
  let sandbox
  sharedSandbox(made => (sandbox = made))

  test('size, resize, what is typed and shown', async () => {
    const terminal = await sandbox.pty.create({
      cols: 100,
      rows: 30,
      command: ['bash', '--norc'],
      env: { PS1: '> ' }
    })
    // A shell loses what is typed while it starts a program or is interrupted, so each step is typed
    // when the one before has shown what it does.
    let shown = ''
    const output = terminal[Symbol.asyncIterator]()
    const see = async words => {
      while (!shown.includes(words)) {
        const { value, done } = await output.next()
        assert.ok(!done, `never saw ${words} in ${JSON.stringify(shown)}`)
        assert.equal(value.stream, 'pty')
        shown += value.text
      }
      shown = shown.slice(shown.indexOf(words) + words.length)
    }
    await see('> ')
    await terminal.write('stty size\n')
    await see('30 100')
    await see('> ')
    await terminal.resize({ cols: 60, rows: 20 })
    await terminal.write('stty size\n')
    await see('20 60')
    await see('> ')
    await terminal.write('tail -n +1 -f /etc/passwd\n')
    await see('root:') // said by the program: it has the terminal
    await terminal.write('\x03')
    await see('> ')
    await terminal.write('echo "status $?"\n')
    await see('status 130')
    await see('> ')
    const again = await sandbox.pty.attach(terminal.id)
    await again.write('exit 4\n')
    const result = await again.wait()
    assert.equal(result.exitCode, 4)
    assert.ok(result.stdout.includes('20 60'))
  })
})
