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

/** What follows from whom the engines say they are. */
interface Pairing {
  readonly peers: readonly (EnginePeer | null)[]
  /** A handoff of one would be read from, or released at, the other: neither gets a request. */
  readonly doubted: ReadonlySet<Engine>
  /** Of each prefill engine's word of itself, the decode engines that can serve with it. */
  readonly decodesOf: Map<EnginePeer, readonly Engine[]>
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
  readonly engines: readonly Engine[]
  readonly #obstacle: (prefill: EnginePeer) => string | null
  readonly #prefillPolicy: SelectionPolicy
  readonly #decodePolicy: SelectionPolicy
  /** Asked for by every request; polls change it. */
  #known: Pairing | null = null

  constructor(options: FleetOptions) {
    this.prefills = options.prefills
    this.decodes = options.decodes
    this.engines = [...this.prefills, ...this.decodes]
    this.#obstacle = options.obstacle
    this.#prefillPolicy = options.createPolicy()
    this.#decodePolicy = options.createPolicy()
  }

  /**
   * The next P that is up and has a matching D; with `dispatch` one that is served that way.
   * @throws RouterError 503 ERR_KV_PEER_UNAVAILABLE.
   */
  choosePrefill(excluded: ReadonlySet<Engine>, dispatch: string | null = null): Engine {
    const { doubted } = this.#pairing()
    const isServed = ({ peer }: Engine) => dispatch === null || peer?.dispatch === dispatch
    const candidates = this.prefills.filter(
      (engine) =>
        !excluded.has(engine) &&
        !doubted.has(engine) &&
        isServed(engine) &&
        this.#matchingDecodes(engine.peer).length > 0,
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
    const { doubted } = this.#pairing()
    const isReady = this.prefills.some(
      (engine) => !doubted.has(engine) && this.#matchingDecodes(engine.peer).length > 0,
    )
    const down = this.engines.flatMap(({ leg, url, state }) =>
      state.kind === 'up'
        ? []
        : [`${leg} ${url}: ${state.kind === 'down' ? state.reason : 'not asked yet'}`],
    )
    const problems = [...down, ...this.#sharedNames(), ...this.#obstacles(), ...this.#mismatches()]
    return { isReady, problems: problems.slice(0, problemCountMax) }
  }

  #matchingDecodes(prefill: EnginePeer | null): readonly Engine[] {
    if (prefill === null) return []
    const { doubted, decodesOf } = this.#pairing()
    const known = decodesOf.get(prefill)
    if (known !== undefined) return known
    const canDispatch = this.#obstacle(prefill) === null
    const decodes = this.decodes.filter(
      (engine) =>
        canDispatch &&
        engine.peer !== null &&
        !doubted.has(engine) &&
        findMismatch(prefill, engine.peer) === null,
    )
    decodesOf.set(prefill, decodes)
    return decodes
  }

  /** Worked out anew when an engine came, went, or says something else of itself. */
  #pairing(): Pairing {
    const { engines } = this
    const isKnown = this.#known?.peers.every((peer, at) => peer === engines[at]?.peer) ?? false
    if (this.#known !== null && isKnown) return this.#known
    const doubted = new Set(this.#namesakes().flatMap(([, namesakes]) => namesakes))
    this.#known = { peers: engines.map(({ peer }) => peer), doubted, decodesOf: new Map() }
    return this.#known
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
    const message =
      problems.length === 0
        ? `no ${leg} engine is left to try`
        : `the request can't be served: ${problems.join('; ')}`
    return new RouterError({
      status: 503,
      code: 'ERR_KV_PEER_UNAVAILABLE',
      outcome: 'unavailable',
      message,
    })
  }
}
