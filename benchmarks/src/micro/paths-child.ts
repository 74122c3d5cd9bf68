/**
 * One side of `micro --paths` as a child process: an agent with slabs, and blocks of every size that is
 * measured. The initiator times each round and looks at every byte that moved.
 */
import type { AgentPath, BlockTableHandle, KvMemory, PeerHandle } from '@kvferry/connector-api'
import type { TransferAgent, TransferCompletion } from '@kvferry/connector-api'
import { createHostAllocator, createNixlAgent, transportsInUse } from '@kvferry/native-nixl'
import { answerCommands, type Words } from './command-lines.ts'
import { paths } from './paths-settings.ts'

const now = (): number => Number(process.hrtime.bigint())
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const unhex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'))

interface Post {
  readonly path: AgentPath
  readonly direction: 'read' | 'write'
  readonly blockSizeBytes: number
  readonly count: number
}

/** Even ids at both ends, in another order at each: nothing merges. */
function idsOf(count: number, isReversed: boolean): Uint32Array {
  return Uint32Array.from({ length: count }, (_, at) => 2 * (isReversed ? count - 1 - at : at))
}

const wordsOf = (memory: KvMemory): Uint32Array => {
  const bytes = memory.bytes as Uint8Array
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
}

class PathsChild {
  readonly #agent: TransferAgent
  readonly #memory: KvMemory
  readonly #tables: ReadonlyMap<number, BlockTableHandle>
  readonly #remote = new Map<number, BlockTableHandle>()
  #peer: PeerHandle | null = null
  #onEnd: (completion: TransferCompletion) => void = () => {}

  private constructor(
    agent: TransferAgent,
    memory: KvMemory,
    tables: ReadonlyMap<number, BlockTableHandle>,
  ) {
    this.#agent = agent
    this.#memory = memory
    this.#tables = tables
    agent.setListener({
      onCompletions: (completions) => {
        for (const each of completions) if (each.status !== 'overdue') this.#onEnd(each)
      },
      onNotifications: () => {},
      onBroken(error) {
        throw error
      },
    })
  }

  static async create(name: string): Promise<PathsChild> {
    const memory = createHostAllocator().allocate({ sizeBytes: paths.memorySizeBytes })
    ;(memory.bytes as Uint8Array).fill(1)
    const agent = await createNixlAgent({ name, slabs: paths.slabs })
    const lengthBytes = paths.memorySizeBytes
    const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes })
    const tables = new Map(
      paths.blockSizesBytes.map((size) => {
        const blockCount = Math.floor(lengthBytes / size)
        const layout = { blockSizeBytes: size, blockStrideBytes: size, blockCount }
        return [size, agent.declareBlockTable([{ region, offsetBytes: 0, ...layout }])]
      }),
    )
    return new PathsChild(agent, memory, tables)
  }

  async hello(): Promise<string> {
    const tables = [...this.#tables.values()].map((table) =>
      hex(this.#agent.exportBlockTable(table)),
    )
    return [hex(await this.#agent.localMetadata()), ...tables].join(' ')
  }

  serve(): void {
    this.#agent.expectNotifications(true)
  }

  async connect(name: string, metadata: string, tables: readonly string[]): Promise<void> {
    const peer = await this.#agent.addPeer({ metadata: unhex(metadata), expectedName: name })
    this.#peer = peer
    for (const [at, size] of paths.blockSizesBytes.entries()) {
      this.#remote.set(size, this.#agent.importBlockTable(peer, unhex(tables[at]!)))
    }
  }

  /** ns of one round: post → its completion in the callback. */
  async round(post: Post): Promise<number> {
    const { path, direction, blockSizeBytes, count } = post
    const startedAt = now()
    const ended = new Promise<TransferCompletion>((resolve) => (this.#onEnd = resolve))
    this.#agent.post([
      {
        ...{ path, direction, peer: this.#peer! },
        local: { table: this.#tables.get(blockSizeBytes)!, blockIds: idsOf(count, false) },
        remote: { table: this.#remote.get(blockSizeBytes)!, blockIds: idsOf(count, true) },
      },
    ])
    const end = await ended
    if (end.status === 'failed') throw end.error
    return now() - startedAt
  }

  /**
   * A round that is looked at: what was written is read back by descriptors, what was read was written by
   * descriptors before. Every block must have come, and nothing beside them have changed.
   */
  async verify(post: Post, seed: number): Promise<void> {
    const back = { ...post, path: 'descriptors' as const }
    this.#fill(seed)
    await this.round(post.direction === 'write' ? post : { ...back, direction: 'write' })
    this.#fill(seed + 1)
    await this.round(post.direction === 'read' ? post : { ...back, direction: 'read' })
    const words = wordsOf(this.#memory)
    const perBlock = post.blockSizeBytes / 4
    for (let at = 0; at < words.length; at++) {
      const block = Math.floor(at / perBlock)
      const isMoved = block % 2 === 0 && block < 2 * post.count
      const expected = Math.imul(at + (isMoved ? seed : seed + 1), paths.patternFactor) >>> 0
      if (words[at] === expected) continue
      throw new Error(
        `${post.path} ${post.direction} of ${post.blockSizeBytes} B: word ${at} is wrong`,
      )
    }
  }

  transports(): string[] {
    return transportsInUse(this.#agent)
  }

  close(): Promise<void> {
    return this.#agent.close({ deadlineMs: 2_000 })
  }

  #fill(seed: number): void {
    const words = wordsOf(this.#memory)
    for (let at = 0; at < words.length; at++) words[at] = Math.imul(at + seed, paths.patternFactor)
  }
}

const child = await PathsChild.create(process.argv[2] ?? '')

async function execute(words: readonly string[]): Promise<Words> {
  const [command = '', ...args] = words
  const post = (): Post => ({
    path: args[0] as AgentPath,
    direction: args[1] as 'read' | 'write',
    blockSizeBytes: Number(args[2]),
    count: Number(args[3]),
  })
  switch (command) {
    case 'serve':
      child.serve()
      return []
    case 'connect':
      await child.connect(args[0] ?? '', args[1] ?? '', args.slice(2))
      return []
    case 'round':
      return [await child.round(post())]
    case 'verify':
      await child.verify(post(), Number(args[4]))
      return []
    case 'transports':
      return child.transports()
    default:
      throw new Error(`unknown command ${command}`)
  }
}

await answerCommands(await child.hello(), execute)
await child.close()
