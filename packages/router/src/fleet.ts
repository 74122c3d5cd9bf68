/**
 * All engines of the router: which pairs can serve a request now, and which engine is next. Reads the
 * engines' states; called per request and by `/ready`. Never talks to the network.
 */
import { findMismatch } from './engine-match.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import type { SelectionPolicy } from './policy.ts'
import { RouterError } from './router-error.ts'

export interface Readiness {
  readonly isReady: boolean
  /** One sentence per obstacle: an engine that is down, or a pair that does not match, with both values. */
  readonly problems: readonly string[]
}

/** Pairs grow with the product of both sides; nobody reads more. */
const problemCountMax = 16

export interface FleetOptions {
  readonly prefills: readonly Engine[]
  readonly decodes: readonly Engine[]
  /** Why the router can dispatch nothing to this prefill engine, with the remedy; null: it can. */
  readonly obstacle: (prefill: EnginePeer) => string | null
  /** A policy per leg: they keep counters. */
  readonly createPolicy: () => SelectionPolicy
}

export class Fleet {
  readonly prefills: readonly Engine[]
  readonly decodes: readonly Engine[]
  readonly #obstacle: (prefill: EnginePeer) => string | null
  readonly #prefillPolicy: SelectionPolicy
  readonly #decodePolicy: SelectionPolicy

  constructor(options: FleetOptions) {
    this.prefills = options.prefills
    this.decodes = options.decodes
    this.#obstacle = options.obstacle
    this.#prefillPolicy = options.createPolicy()
    this.#decodePolicy = options.createPolicy()
  }

  get engines(): readonly Engine[] {
    return [...this.prefills, ...this.decodes]
  }

  /**
   * The next P that is up and has a matching D; with `modes` one of these transfer modes.
   * @throws RouterError 503 ERR_KV_PEER_UNAVAILABLE.
   */
  choosePrefill(excluded: ReadonlySet<Engine>, modes: ReadonlySet<string> | null = null): Engine {
    const doubted = this.#doubted()
    const isServed = ({ peer }: Engine) => modes === null || modes.has(peer?.transferMode ?? 'none')
    const candidates = this.prefills.filter(
      (engine) =>
        !excluded.has(engine) &&
        !doubted.has(engine) &&
        isServed(engine) &&
        this.#matchingDecodes(engine.peer, doubted).length > 0,
    )
    if (candidates.length === 0) throw this.#unavailable('prefill')
    return this.#prefillPolicy.pick(candidates)
  }

  /** The next D that matches the P that has answered. @throws RouterError 503 ERR_KV_PEER_UNAVAILABLE. */
  chooseDecode(prefill: EnginePeer, excluded: ReadonlySet<Engine>): Engine {
    const candidates = this.#matchingDecodes(prefill).filter((engine) => !excluded.has(engine))
    if (candidates.length === 0) throw this.#unavailable('decode')
    return this.#decodePolicy.pick(candidates)
  }

  readiness(): Readiness {
    const doubted = this.#doubted()
    const isReady = this.prefills.some(
      (engine) => !doubted.has(engine) && this.#matchingDecodes(engine.peer, doubted).length > 0,
    )
    const down = this.engines.flatMap(({ leg, url, state }) =>
      state.kind === 'up'
        ? []
        : [`${leg} ${url}: ${state.kind === 'down' ? state.reason : 'not asked yet'}`],
    )
    const problems = [...down, ...this.#sharedNames(), ...this.#obstacles(), ...this.#mismatches()]
    return { isReady, problems: problems.slice(0, problemCountMax) }
  }

  #matchingDecodes(
    prefill: EnginePeer | null,
    doubted: ReadonlySet<Engine> = this.#doubted(),
  ): Engine[] {
    if (prefill === null || this.#obstacle(prefill) !== null) return []
    return this.decodes.filter(
      (engine) =>
        engine.peer !== null && !doubted.has(engine) && findMismatch(prefill, engine.peer) === null,
    )
  }

  /** Engines that call themselves the same, by that name. */
  #namesakes(): (readonly [name: string, engines: Engine[]])[] {
    const byName = new Map<string, Engine[]>()
    for (const engine of this.engines) {
      const engineId = engine.peer?.engineId ?? null
      if (engineId === null) continue
      byName.set(engineId, [...(byName.get(engineId) ?? []), engine])
    }
    return [...byName].filter(([, engines]) => engines.length > 1)
  }

  /** A handoff of one would be read from, or released at, the other: neither gets a request. */
  #doubted(): ReadonlySet<Engine> {
    return new Set(this.#namesakes().flatMap(([, engines]) => engines))
  }

  #sharedNames(): string[] {
    return this.#namesakes().map(([name, engines]) => {
      const places = engines.map(({ leg, url }) => `${leg} ${url}`).join(' and ')
      return `engine id "${name}" is used by ${places}: give each engine its own engineId`
    })
  }

  #obstacles(): string[] {
    return this.prefills.flatMap(({ url, peer }) => {
      const obstacle = peer === null ? null : this.#obstacle(peer)
      return obstacle === null ? [] : [`prefill ${url}: ${obstacle}`]
    })
  }

  #mismatches(): string[] {
    return this.prefills.flatMap((prefill) =>
      this.decodes.flatMap((decode) => {
        if (prefill.peer === null || decode.peer === null) return []
        const mismatch = findMismatch(prefill.peer, decode.peer)
        if (mismatch === null) return []
        const { field, prefill: left, decode: right } = mismatch
        return [
          `${field}: prefill ${prefill.url} has "${left}", decode ${decode.url} has "${right}"`,
        ]
      }),
    )
  }

  #unavailable(leg: 'prefill' | 'decode'): RouterError {
    const { problems } = this.readiness()
    const why = problems.length === 0 ? 'none is left to try' : problems.join('; ')
    return new RouterError({
      status: 503,
      code: 'ERR_KV_PEER_UNAVAILABLE',
      outcome: 'unavailable',
      message: `no ${leg} engine can take the request: ${why}`,
    })
  }
}
