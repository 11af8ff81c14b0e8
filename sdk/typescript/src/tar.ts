// A tar archive (ustar) from a few files, for build contexts.
import type { Bytes } from './bytes.js'

const BLOCK = 512
const encoder = new TextEncoder()

/** Contents by path. */
export type FileMap = Readonly<Record<string, string | Uint8Array>>

function octal(value: number, width: number): string {
  return value.toString(8).padStart(width - 1, '0') + '\0'
}

function header(path: string, size: number): Uint8Array {
  const block = new Uint8Array(BLOCK)
  const put = (offset: number, text: string | Uint8Array): void =>
    block.set(typeof text === 'string' ? encoder.encode(text) : text, offset)
  const name = encoder.encode(path)
  if (name.length > 100) {
    throw new RangeError(`"${path}" is too long for a build context; use a tar of your own`)
  }
  put(0, name)
  put(100, octal(0o644, 8))
  put(108, octal(0, 8)) // uid
  put(116, octal(0, 8)) // gid
  put(124, octal(size, 12))
  put(136, octal(0, 12)) // time: equal contents make equal archives
  put(148, '        ') // the checksum counts as spaces
  put(156, '0') // a regular file
  put(257, 'ustar\0' + '00')
  const sum = block.reduce((total, byte) => total + byte, 0)
  put(148, sum.toString(8).padStart(6, '0') + '\0 ')
  return block
}

export function tarOf(files: FileMap): Bytes {
  const blocks: Uint8Array[] = []
  for (const [path, contents] of Object.entries(files)) {
    const bytes = typeof contents === 'string' ? encoder.encode(contents) : contents
    blocks.push(header(path, bytes.length), bytes)
    blocks.push(new Uint8Array((BLOCK - (bytes.length % BLOCK)) % BLOCK))
  }
  blocks.push(new Uint8Array(2 * BLOCK))
  const archive = new Uint8Array(blocks.reduce((size, block) => size + block.length, 0))
  let offset = 0
  for (const block of blocks) {
    archive.set(block, offset)
    offset += block.length
  }
  return archive
}
