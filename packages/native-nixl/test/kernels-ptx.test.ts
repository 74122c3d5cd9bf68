/** The kernels' committed text was made from the sources beside it: whoever changes one runs native/cuda/compile.mjs. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Compile {
  stamp(): string
  firstLineOf(text: string): string
}

const cuda = new URL('../native/cuda/', import.meta.url)

test('kernels.ptx.inc says the hash of kernels.cu and kernel_arguments.h', async () => {
  const { stamp, firstLineOf } = (await import(new URL('compile.mjs', cuda).href)) as Compile
  const text = readFileSync(new URL('kernels.ptx.inc', cuda), 'utf8')
  expect(firstLineOf(text)).toBe(stamp())
  // What drivers of CUDA 12 take too.
  expect(text).toContain('.version 8.0\n.target sm_75\n')
})
