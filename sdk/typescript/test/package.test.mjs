// The package as others get it: what is in it, what its types promise, what its README shows.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, before, after } from 'node:test'
import { promisify } from 'node:util'
import { Sandbox } from '@atoll/sandbox'
import { codeBlocks, root, test } from './helpers.mjs'

const run = promisify(execFile)
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')

test('what npm would publish', async () => {
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: root
  })
  const [{ files }] = JSON.parse(stdout)
  const paths = files.map(file => file.path)
  for (const needed of [
    'package.json',
    'README.md',
    'LICENSE',
    'dist/esm/index.js',
    'dist/esm/index.d.ts',
    'dist/cjs/index.js',
    'dist/cjs/index.d.ts',
    'dist/cjs/package.json'
  ]) {
    assert.ok(paths.includes(needed), `${needed} is missing`)
  }
  for (const path of paths) {
    assert.match(path, /^(dist\/|package\.json$|README\.md$|LICENSE$)/, 'does not belong there')
  }
  const manifest = JSON.parse(await readFile(`${root}package.json`, 'utf8'))
  assert.deepEqual(Object.keys(manifest.dependencies ?? {}), [])
})

test('the generated types are those of the contract', async t => {
  const out = await mkdtemp(join(tmpdir(), 'atoll-contract-'))
  t.after(() => rm(out, { recursive: true }))
  const manifest = JSON.parse(await readFile(`${root}package.json`, 'utf8'))
  const command = manifest.scripts.generate.split(' ')
  const target = command.pop()
  assert.equal(target, 'src/generated/contract.ts')
  await run(join(root, 'node_modules/.bin', command[0]), [...command.slice(1), join(out, 'c.ts')], {
    cwd: root
  })
  assert.equal(
    await readFile(join(root, target), 'utf8'),
    await readFile(join(out, 'c.ts'), 'utf8'),
    'run `npm run generate`'
  )
})

test('CommonJS has the same exports', async () => {
  const required = createRequire(import.meta.url)('@atoll/sandbox')
  const imported = await import('@atoll/sandbox')
  assert.deepEqual(Object.keys(required).sort(), Object.keys(imported).sort())
  assert.equal(await required.Sandbox.with(async s => (await s.runCode('2 + 3')).text), '5')
})

describe('a project that uses the package', () => {
  let project
  before(async () => {
    project = await mkdtemp(join(tmpdir(), 'atoll-consumer-'))
    const home = join(project, 'node_modules/@atoll/sandbox')
    await mkdir(home, { recursive: true })
    for (const name of ['package.json', 'dist']) {
      await cp(join(root, name), join(home, name), { recursive: true })
    }
    // Of Node's own types the examples need one function.
    await writeFile(
      join(project, 'node.d.ts'),
      "declare module 'node:fs/promises' {\n  export function writeFile(path: string, data: Uint8Array): Promise<void>\n}\n"
    )
  })
  after(() => rm(project, { recursive: true, force: true }))

  // Compiles into `out` beside the sources, with all checks on.
  const compile = async (kind, sources) => {
    const folder = join(project, kind)
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type: kind }))
    for (const [name, source] of Object.entries(sources)) {
      await writeFile(join(folder, `${name}.ts`), source)
    }
    const compilerOptions = {
      target: 'ES2022',
      module: 'NodeNext',
      lib: ['ES2022', 'ESNext.Disposable', 'DOM', 'DOM.AsyncIterable'],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipDefaultLibCheck: true,
      rootDir: '..',
      outDir: 'out'
    }
    const config = { compilerOptions, include: ['*.ts', '../node.d.ts'] }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
    await run(process.execPath, [tsc, '-p', folder]).catch(error => assert.fail(error.stdout))
    return join(folder, 'out', kind)
  }
  const numbered = codes => Object.fromEntries(codes.map((code, i) => [`example${i}`, code]))

  test('ESM: the README is right, wrong uses are refused, the quick starts work', async () => {
    const examples = await codeBlocks('ts')
    assert.ok(examples.length >= 9)
    const [typescript] = await codeBlocks('ts quickstart')
    const [javascript] = await codeBlocks('js quickstart')
    const out = await compile('module', { ...numbered(examples), wrong: WRONG, quick: typescript })
    await writeFile(join(project, 'quick.mjs'), javascript)
    const before = await ids()
    for (const file of [join(out, 'quick.js'), join(project, 'quick.mjs')]) {
      const { stdout } = await run(process.execPath, [file])
      assert.equal(stdout, '2\n', file)
    }
    assert.deepEqual(await ids(), before, 'the sandboxes of the quick starts are gone')
    for (const code of [typescript, javascript]) {
      assert.ok(code.trim().split('\n').length <= 6)
    }
  })

  test('CommonJS sees the same types', async () => {
    const wrap = code => {
      const lines = code.split('\n')
      const imports = lines.filter(line => line.startsWith('import '))
      const body = lines.filter(line => !line.startsWith('import '))
      return `${imports.join('\n')}\nasync function main() {\n${body.join('\n')}\n}\nvoid main()\n`
    }
    await compile('commonjs', numbered((await codeBlocks('ts')).map(wrap)))
  })
})

// Each expectation is an error of the compiler if it does not come true.
const WRONG = `
import { Sandbox } from '@atoll/sandbox'
const sandbox = await Sandbox.create()
// @ts-expect-error
await Sandbox.create({ tmplate: 'x' })
const result = await sandbox.commands.run('true')
// @ts-expect-error: only a killed command has a signal
result.signal
if (result.outcome === 'killed') result.signal.toFixed()
// @ts-expect-error
await sandbox.files.read('x', { format: 'pictures' })
const bytes: Uint8Array = await sandbox.files.read('x', { format: 'bytes' })
void bytes
`

async function ids() {
  const all = []
  for await (const { id } of Sandbox.list()) all.push(id)
  return all
}
