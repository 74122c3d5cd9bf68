/** A pair of children of `gpus`: what they are asked, as functions. Whatever is wrong there rejects here. */
import type { AgentPath } from '@kvferry/connector-api'
import type { LineProcess } from '../micro/line-process.ts'
import type { Side } from './blocks.ts'
import {
  decode,
  encode,
  type Blocks,
  type Content,
  type Hello,
  type Round,
  type RoundOrder,
} from './messages.ts'

interface Started {
  readonly process: LineProcess
  readonly words: readonly string[]
}

export class PairOfChildren {
  readonly paths: readonly AgentPath[]
  readonly #initiator: LineProcess
  readonly #target: LineProcess

  private constructor(initiator: LineProcess, target: LineProcess, paths: readonly AgentPath[]) {
    this.#initiator = initiator
    this.#target = target
    this.paths = paths
  }

  static async connect(initiator: Started, target: Started): Promise<PairOfChildren> {
    await target.process.request('serve')
    const hello = encode(decode<Hello>(target.words))
    const answered = await initiator.process.request(`connect ${hello}`)
    return new PairOfChildren(initiator.process, target.process, decode<AgentPath[]>(answered))
  }

  async round(order: RoundOrder): Promise<Round> {
    return decode<Round>(await this.#initiator.request(`round ${encode(order)}`))
  }

  /** One that is looked at: the destination is spoilt before, and has to hold the source's content after it. */
  async verifiedRound(order: RoundOrder, source: Source): Promise<Round> {
    const { direction, table, count } = order
    const destination = direction === 'write' ? 'remote' : 'local'
    await this.#of(destination, 'fill', { table, count, seed: 2 })
    const round = await this.round(order)
    const found = await this.#of(destination, 'digest', { table, count, seed: 0 })
    if (found !== source.digest) {
      throw new Error(`${order.path} ${direction} of ${count} × ${table} B: a byte is wrong`)
    }
    return round
  }

  async fillSource({ direction, table, count }: Omit<RoundOrder, 'path'>): Promise<Source> {
    const side = direction === 'write' ? 'local' : 'remote'
    return { digest: await this.#of(side, 'fill', { table, count, seed: 1 }) }
  }

  /** Microseconds. */
  async tier(direction: 'down' | 'up', blocks: Blocks): Promise<number> {
    const order = encode({ direction, ...blocks })
    return decode<number>(await this.#initiator.request(`tier ${order}`))
  }

  /** Down, all spoilt, and up again. */
  async verifyTier(blocks: Blocks): Promise<void> {
    const source = await this.#of('local', 'fill', { ...blocks, seed: 1 })
    await this.tier('down', blocks)
    await this.#of('local', 'fill', { ...blocks, seed: 2 })
    await this.tier('up', blocks)
    const found = await this.#of('local', 'digest', { ...blocks, seed: 0 })
    if (found !== source)
      throw new Error(`a copy of ${blocks.table} B to the host and back is wrong`)
  }

  async transports(): Promise<readonly string[]> {
    return decode<string[]>(await this.#initiator.request('transports'))
  }

  async #of(side: Side, what: 'fill' | 'digest', content: Omit<Content, 'side'>): Promise<string> {
    const child = side === 'local' ? this.#initiator : this.#target
    return decode<string>(await child.request(`${what} ${encode({ ...content, side })}`))
  }
}

export interface Source {
  readonly digest: string
}
