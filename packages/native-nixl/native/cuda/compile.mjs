/**
 * Compiles kernels.cu to kernels.ptx.inc, which is committed: neither a build nor CI needs a GPU compiler,
 * and a test sees when the two have drifted apart. The compiler is NVRTC of CUDA 12.0 from a PyPI wheel,
 * unpacked into the repository's cache: its PTX is taken by every driver since CUDA 12.0, which a newer
 * compiler's is not (contributing/decisions/0014).
 *
 *   node native/cuda/compile.mjs [--check]
 *
 * `--check`: compiles, and fails where the result isn't what is committed.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const cache = join(here, '../../../../.cache/nvrtc')
const output = join(here, 'kernels.ptx.inc')

export const compiler = 'nvidia-cuda-nvrtc-cu12==12.0.140'
export const options = ['--gpu-architecture=compute_75', '--std=c++17']

/** What the committed text was made from, as its first line says it. */
export function stamp() {
  const hash = createHash('sha256')
  for (const file of ['kernels.cu', 'kernel_arguments.h'])
    hash.update(readFileSync(join(here, file)))
  return `// ${compiler} ${options.join(' ')} sources ${hash.digest('hex')}`
}

/** The text of a raw string literal. */
export function firstLineOf(text) {
  return text.split('\n')[1] ?? ''
}

const program = `
import ctypes, sys
library, source, header, *options = sys.argv[1:]
nvrtc = ctypes.CDLL(library)
program, size = ctypes.c_void_p(), ctypes.c_size_t()
texts = (ctypes.c_char_p * 1)(open(header, 'rb').read())
names = (ctypes.c_char_p * 1)(b'kernel_arguments.h')
nvrtc.nvrtcCreateProgram(ctypes.byref(program), open(source, 'rb').read(), b'kernels.cu', 1, texts, names)
status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
log = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetProgramLog(program, log)
if status: sys.exit(log.value.decode())
nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
text = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetPTX(program, text)
sys.stdout.write(text.value.decode())
`

function compile() {
  const library = join(cache, 'nvidia/cuda_nvrtc/lib/libnvrtc.so.12')
  if (!existsSync(library)) {
    mkdirSync(cache, { recursive: true })
    const pip = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', cache, compiler]
    execFileSync('python3', pip, { stdio: 'inherit' })
  }
  const files = [library, join(here, 'kernels.cu'), join(here, 'kernel_arguments.h')]
  const ptx = execFileSync('python3', ['-c', program, ...files, ...options], { encoding: 'utf8' })
  return `R"ptx(\n${stamp()}\n${ptx.trim()}\n)ptx"\n`
}

if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === process.argv[1]) {
  const text = compile()
  if (!process.argv.includes('--check')) {
    writeFileSync(output, text)
  } else if (readFileSync(output, 'utf8') !== text) {
    process.stderr.write(
      'kernels.ptx.inc is not what kernels.cu compiles to: run native/cuda/compile.mjs\n',
    )
    process.exitCode = 1
  }
}
