import assert from 'node:assert/strict'
import { describe } from 'node:test'
import { CodeError, InvalidRequestError, Sandbox } from '@atoll/sandbox'
import { sharedSandbox, test } from './helpers.mjs'

const SHOUTER =
  'printf "what? "; while read -r line; do echo "$line" | tr a-z A-Z; printf "what? "; done'

describe('code', () => {
  let sandbox
  sharedSandbox(made => (sandbox = made))

  test('state stays between calls, per language', async () => {
    await sandbox.runCode('x = 20')
    assert.equal((await sandbox.runCode('x + 1')).text, '21')
    await sandbox.runCode('globalThis.y = 5', { language: 'javascript' })
    assert.equal((await sandbox.runCode('y * 2', { language: 'javascript' })).text, '10')
    await sandbox.runCode('z=7', { language: 'bash' })
    assert.equal((await sandbox.runCode('echo $z', { language: 'bash' })).stdout, '7\n')
  })

  test('output and value apart, and together as they were shown', async () => {
    const execution = await sandbox.runCode(
      'import sys\nprint("out")\nprint("err", file=sys.stderr)\n"value"'
    )
    assert.equal(execution.ok, true)
    assert.equal(execution.stdout, 'out\n')
    assert.equal(execution.stderr, 'err\n')
    assert.equal(execution.text, "'value'")
    assert.match(execution.output, /out\n/)
    assert.ok(execution.output.endsWith("'value'\n"))
  })

  test('an error has a name, a value and a traceback', async () => {
    const execution = await sandbox.runCode('def f():\n    return 1 / 0\nf()')
    assert.equal(execution.ok, false)
    assert.equal(execution.outcome, 'completed')
    assert.equal(execution.error.name, 'ZeroDivisionError')
    assert.match(execution.error.traceback, /in f/)
    await assert.rejects(sandbox.runCode('nope', { check: true }), error => {
      assert.ok(error instanceof CodeError)
      assert.equal(error.execution.error.name, 'NameError')
      return true
    })
  })

  test('output is streamed while the code runs', async () => {
    // The code goes on only after its first line has been seen here.
    const seen = []
    const execution = await sandbox.runCode(
      'import os, time\nprint("first")\nwhile not os.path.exists("/tmp/go"): time.sleep(0.01)\nprint("second")',
      {
        timeoutMs: 30_000,
        onStdout: async text => {
          seen.push(text)
          if (text.includes('first')) await sandbox.files.write('/tmp/go', '')
        }
      }
    )
    assert.equal(execution.outcome, 'completed')
    assert.equal(seen.join(''), 'first\nsecond\n')
  })

  test('rich results', async () => {
    const { results } = await sandbox.runCode(`
class Rich:
    def _repr_html_(self): return '<b>hi</b>'
    def _repr_png_(self): return bytes([137, 80, 78, 71])
    def __repr__(self): return 'rich'
Rich()`)
    assert.equal(results.length, 1)
    const [result] = results
    assert.equal(result.isMain, true)
    assert.equal(result.text, 'rich')
    assert.equal(result.html, '<b>hi</b>')
    assert.deepEqual([...result.png], [137, 80, 78, 71])
    assert.equal(result.dataUrl('image/png'), 'data:image/png;base64,iVBORw==')
    assert.ok(result.formats.includes('text/html'))
  })

  test('a timeout interrupts, keeps what was printed and the state', async () => {
    await sandbox.runCode('kept = 1')
    const late = await sandbox.runCode('print("before")\nwhile True: pass', { timeoutMs: 500 })
    assert.equal(late.outcome, 'timed_out')
    assert.equal(late.stdout, 'before\n')
    assert.equal((await sandbox.runCode('kept')).text, '1')
  })

  test('abort interrupts the code on the server and keeps the state', async () => {
    await sandbox.runCode('kept = 2')
    const controller = new AbortController()
    const running = sandbox.runCode('print("on", flush=True)\nwhile True: pass', {
      signal: controller.signal,
      onStdout: () => controller.abort()
    })
    await assert.rejects(running, { name: 'AbortError' })
    assert.equal((await sandbox.runCode('kept', { timeoutMs: 20_000 })).text, '2')
  })

  test('aborting code that waits for its turn leaves the running code alone', async () => {
    const running = sandbox.runCode('import time; time.sleep(0.5); "done"')
    const waiting = sandbox.runCode('never = 1', { signal: AbortSignal.timeout(50) })
    await assert.rejects(waiting, { name: 'TimeoutError' })
    assert.equal((await running).text, "'done'")
    assert.equal((await sandbox.runCode('"never" in globals()')).text, 'False')
  })

  test('interrupt from beside, restart, own contexts', async () => {
    await using_(await sandbox.createContext({ cwd: '/tmp', env: { A: 'b' } }), async context => {
      const where = await context.run('import os; (os.getcwd(), os.environ["A"])')
      assert.equal(where.text, "('/tmp', 'b')")
      const running = context.run('print("on", flush=True)\nwhile True: pass', {
        onStdout: () => context.interrupt()
      })
      assert.equal((await running).error.name, 'KeyboardInterrupt')
      await context.run('gone = 1')
      await context.restart()
      assert.equal((await context.run('"gone" in globals()')).text, 'False')
      assert.equal((await sandbox.runCode('1', { context })).contextId, context.id)
    })
  })

  test('an interpreter is found again with its state; a command is none', async () => {
    const { contextId } = await sandbox.runCode('found = 7')
    const elsewhere = await Sandbox.connect(sandbox.id)
    const context = await elsewhere.attachContext(contextId)
    assert.equal(context.language, 'python')
    assert.equal((await context.run('found')).text, '7')
    const { id } = await sandbox.commands.run('true')
    await assert.rejects(sandbox.attachContext(id), InvalidRequestError)
  })

  test("a prompt of one's own", async () => {
    const repl = {
      name: 'shouter',
      candidates: [{ name: 'absent' }, { name: 'sh', args: ['-c', SHOUTER] }],
      ready: { mode: 'prompt_token', token: 'what? ' }
    }
    await using_(await sandbox.createContext({ repl }), async context => {
      assert.match((await context.run('hello')).output, /HELLO/)
    })
  })

  test('an interpreter that ended is replaced at the next call', async () => {
    const ended = await sandbox.runCode('import os; os._exit(3)')
    assert.equal(ended.running, false)
    assert.equal((await sandbox.runCode('1 + 1')).text, '2')
    const { contextId } = await sandbox.runCode('1')
    const interpreter = await sandbox.commands.attach(contextId)
    await interpreter.kill()
    await interpreter.wait()
    assert.equal((await sandbox.runCode('2 + 2')).text, '4')
  })

  test('calls at the same time share one interpreter and run one by one', async () => {
    const fresh = await Sandbox.connect(sandbox.id)
    const all = await Promise.all([1, 2, 3].map(i => fresh.runCode(`${i}`, { language: 'python' })))
    assert.deepEqual(
      all.map(each => each.text),
      ['1', '2', '3']
    )
    assert.equal(new Set(all.map(each => each.contextId)).size, 1)
  })

  test('a language that is not there is refused by name', async () => {
    await assert.rejects(sandbox.runCode('1', { language: 'klingon' }), /klingon/)
  })
})

async function using_(resource, use) {
  try {
    await use(resource)
  } finally {
    await resource[Symbol.asyncDispose]()
  }
}
