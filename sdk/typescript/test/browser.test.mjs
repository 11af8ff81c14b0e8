// The same package in a page, as a browser loads it: no bundler, no Node.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root, test } from './helpers.mjs'

const CHROMIUM = '/usr/bin/chromium'
const PAGE_SECONDS = 60

// Runs in the page, so it may use nothing from here.
async function inPage(url, apiKey) {
  const { NotFoundError, Sandbox } = await import('/index.js')
  return Sandbox.with({ url, apiKey }, async sandbox => {
    const lines = []
    const command = await sandbox.commands.run('echo out; cat; exit 3', {
      stdin: 'in\n',
      onStdout: text => lines.push(text)
    })
    const pieces = [new Uint8Array([104]), new Uint8Array([105])]
    await sandbox.files.write('note', new Blob(pieces).stream())
    const missing = await sandbox.files.read('absent').catch(error => error)
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 100)
    const aborted = await sandbox.commands
      .run('sleep 1000', { signal: controller.signal })
      .catch(error => error.name)
    const watch = await sandbox.files.watch('/tmp')
    await sandbox.files.write('/tmp/seen', '')
    let event
    for await (event of watch) break
    return {
      sum: (await sandbox.runCode('1 + 1')).text,
      exitCode: command.exitCode,
      streamed: lines.join(''),
      note: await sandbox.files.read('note'),
      missing: missing instanceof NotFoundError && /^[0-9a-f]+$/.test(missing.requestId),
      aborted,
      event: event.type
    }
  })
}

test(
  'a page in Chromium',
  { skip: existsSync(CHROMIUM) ? false : 'chromium is not installed' },
  async t => {
    const { ATOLL_URL, ATOLL_API_KEY } = process.env
    const page = `<!doctype html><script type="module">
    const answer = await (${inPage})(${JSON.stringify(ATOLL_URL)}, ${JSON.stringify(ATOLL_API_KEY)})
      .catch(error => ({ error: String(error), stack: error.stack }))
    await fetch('/answer', { method: 'POST', body: JSON.stringify(answer) })
  </script>`
    let resolveAnswer
    const answer = new Promise(resolve => (resolveAnswer = resolve))
    const server = createServer(async (request, response) => {
      if (request.method === 'POST') {
        let text = ''
        for await (const piece of request) text += piece
        resolveAnswer(JSON.parse(text))
        return response.end()
      }
      if (request.url === '/') {
        return response.writeHead(200, { 'content-type': 'text/html' }).end(page)
      }
      const path = join(root, 'dist/esm', new URL(request.url, 'http://x').pathname)
      const script = await readFile(path).catch(() => undefined)
      response.writeHead(script ? 200 : 404, { 'content-type': 'text/javascript' }).end(script)
    })
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
    const profile = await mkdtemp(join(tmpdir(), 'atoll-browser-'))
    const browser = spawn(
      CHROMIUM,
      [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--no-first-run',
        `--user-data-dir=${profile}`,
        '--remote-debugging-port=0', // or it would end once the page has loaded
        `http://127.0.0.1:${server.address().port}/`
      ],
      { stdio: 'ignore', detached: true }
    )
    const ended = new Promise(resolve => browser.once('exit', resolve))
    t.after(async () => {
      try {
        process.kill(-browser.pid, 'SIGKILL')
      } catch {
        // It has ended by itself.
      }
      await ended
      server.closeAllConnections()
      server.close()
      await rm(profile, { recursive: true, force: true, maxRetries: 5 })
    })
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('the page did not answer')), PAGE_SECONDS * 1000)
    })
    const gone = ended.then(code => Promise.reject(new Error(`the browser ended with ${code}`)))
    gone.catch(() => {})
    const got = await Promise.race([answer, late, gone]).finally(() => clearTimeout(timer))
    assert.deepEqual(got, {
      sum: '2',
      exitCode: 3,
      streamed: 'out\nin\n',
      note: 'hi',
      missing: true,
      aborted: 'AbortError',
      event: 'create'
    })
  }
)

test('the package names nothing that only Node has', async () => {
  const { readdir } = await import('node:fs/promises')
  for (const name of await readdir(join(root, 'dist/esm'))) {
    if (!name.endsWith('.js')) continue
    const text = await readFile(join(root, 'dist/esm', name), 'utf8')
    assert.doesNotMatch(text, /from ['"](?!\.\/)|\bBuffer\.|\brequire\(/, name)
  }
})
