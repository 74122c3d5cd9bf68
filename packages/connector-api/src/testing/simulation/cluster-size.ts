/**
 * How many engines a run has on either side, and which of them what was planned for two and two falls to. Draws
 * from chances of its own, so that a run of two and two is the one that it would be without this. Pure.
 */
import { createSeededRandom } from '../seeded-random.ts'
import type { SeededRandom } from '../seeded-random.ts'
import type { PlannedFault, PlannedJob } from './plan.ts'

export interface ClusterSize {
  readonly producers: readonly string[]
  readonly consumers: readonly string[]
}

/** Two are the commonest: of one engine nobody has a choice, and of three each has little to do. */
const counts = [1, 2, 2, 2, 3] as const

const named = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`)

/** Who takes the place of the first or second engine of its side. */
export class EngineChoice {
  readonly size: ClusterSize
  readonly #random: SeededRandom

  constructor(seed: number) {
    this.#random = createSeededRandom(seed).fork('cluster size')
    const count = (): number => counts[this.#random.integer(counts.length)]!
    this.size = { producers: named('p', count()), consumers: named('d', count()) }
  }

  /** The same engine where there is one of that name, or else the only one. */
  fit(name: string): string {
    const of = this.#sideOf(name)
    return of.includes(name) ? name : of[0]!
  }

  fitJob({ job, ...rest }: PlannedJob): PlannedJob {
    const { producer, consumer } = job
    return { ...rest, job: { ...job, producer: this.fit(producer), consumer: this.fit(consumer) } }
  }

  fitFault(fault: PlannedFault): PlannedFault {
    const [producer, consumer] = [this.fit(fault.producer), this.fit(fault.consumer)]
    return { ...fault, producer, consumer, victim: this.fit(fault.victim) }
  }

  moveJob({ job, repeatAt, ...rest }: PlannedJob): PlannedJob {
    const moved = { ...job, producer: this.#move(job.producer), consumer: this.#move(job.consumer) }
    const again = repeatAt && { ...repeatAt, consumer: this.#move(repeatAt.consumer) }
    return { ...rest, job: moved, repeatAt: again }
  }

  moveFault(fault: PlannedFault): PlannedFault {
    const [producer, consumer] = [this.#move(fault.producer), this.#move(fault.consumer)]
    const victim = fault.victim === fault.producer ? producer : consumer
    return { ...fault, producer, consumer, victim }
  }

  /** Sometimes to the third, where there is one. */
  #move(name: string): string {
    const third = this.#sideOf(name)[2]
    return third !== undefined && this.#random.chance(1 / 3) ? third : this.fit(name)
  }

  #sideOf(name: string): readonly string[] {
    return name.startsWith('p') ? this.size.producers : this.size.consumers
  }
}
