/**
 * An engine in a process of its own, as vLLM is one: Python, the driver by ctypes, a stream that stands still until it is
 * told, and an event behind that. What another process sees of it is the event's handle.
 */
import { execFileSync, spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { cudaLibrary } from '../../src/cuda.ts'

const program = `
import ctypes, sys
cuda, device = ctypes.CDLL(sys.argv[1]), ctypes.c_int()
def check(status):
    if status: sys.exit('the driver answered %d' % status)
def made(call, *more):
    pointer = ctypes.c_void_p()
    check(call(ctypes.byref(pointer), *more))
    return pointer
check(cuda.cuInit(0))
check(cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[2])))
check(cuda.cuCtxSetCurrent(made(cuda.cuDevicePrimaryCtxRetain, device)))
stream = made(cuda.cuStreamCreate, ctypes.c_uint(1))
event = made(cuda.cuEventCreate, ctypes.c_uint(6))
gate = made(cuda.cuMemHostAlloc, ctypes.c_size_t(4096), ctypes.c_uint(3))
flag = ctypes.cast(gate, ctypes.POINTER(ctypes.c_uint32))
flag[0] = 0
check(cuda.cuStreamWaitValue32_v2(stream, ctypes.c_uint64(gate.value), ctypes.c_uint32(1), ctypes.c_uint(1)))
check(cuda.cuEventRecord(event, stream))
handle = ctypes.create_string_buffer(64)
check(cuda.cuIpcGetEventHandle(handle, event))
print(handle.raw.hex(), flush=True)
sys.stdin.readline()
flag[0] = 1
while True:
    status = cuda.cuEventQuery(event)
    if status != 600: break
check(status)
print('done', flush=True)
sys.stdin.readline()
`

/** Null: it can be run here. */
export function whyNoEngine(): string | null {
  try {
    execFileSync('python3', ['-c', 'import ctypes'], { stdio: 'ignore' })
    return null
  } catch {
    return 'there is no python3 with ctypes to play the engine'
  }
}

export class EventEngine {
  readonly #process: ChildProcessByStdio<Writable, Readable, Readable>
  /** Keeps what nobody has asked for yet. */
  readonly #lines: AsyncIterator<string>
  readonly #exit: Promise<unknown>
  #errors = ''

  constructor(device: number) {
    this.#process = spawn('python3', ['-c', program, cudaLibrary(), String(device)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    this.#process.stderr.on('data', (chunk: Buffer) => (this.#errors += chunk.toString()))
    // It may have ended already; what it said last is the news then.
    this.#process.stdin.on('error', () => {})
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]()
    this.#exit = once(this.#process, 'exit')
  }

  /** Of the event, which is recorded behind what stands still. */
  async handle(): Promise<Uint8Array> {
    return Buffer.from(await this.#line(), 'hex')
  }

  /** Lets the stream go on; resolves when the event has happened. */
  async release(): Promise<void> {
    const done = this.#line()
    this.#process.stdin.write('\n')
    await done
  }

  async end(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#exit
  }

  async #line(): Promise<string> {
    const { done, value } = await this.#lines.next()
    if (done !== true) return value
    await this.#exit
    throw new Error(`the engine ended: ${this.#errors}`)
  }
}
