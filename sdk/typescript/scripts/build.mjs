// Both module systems from one source: dist/esm and dist/cjs, each with its types.
import { execFileSync } from 'node:child_process'
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
rmSync(`${root}dist`, { recursive: true, force: true })
for (const project of ['tsconfig.json', 'tsconfig.cjs.json']) {
  execFileSync(process.execPath, [tsc, '-p', root + project], { stdio: 'inherit' })
}
writeFileSync(`${root}dist/cjs/package.json`, '{ "type": "commonjs" }\n')
copyFileSync(`${root}../../LICENSE`, `${root}LICENSE`)
