/**
 * Judges a cluster: collects every breach of a rule (the safety properties S1 … S7, V1, V2, and the
 * contract's "exactly once"), and the transcript of what happened. It acts on nothing, so a broken run goes
 * on and shows what follows from its first breach.
 */
import type { Clock } from '../../clock.ts'

export const auditRules = {
  S1: 'no block is freed or reassigned while a posted transfer may still write into it',
  S2: 'a reader gets the bytes that it asked for, or an error',
  S3: 'each block has one owner, and none is lost',
  S4: 'leases of a dead incarnation are void',
  S6: 'a probe changes nothing',
  V1: 'every request ends within a bound',
  V2: 'every lease is released',
  once: 'each report comes exactly once, for a request that awaits it',
  hook: 'no hook throws, and none promises what it does not keep',
} as const

export type AuditRule = keyof typeof auditRules

export interface Violation {
  readonly rule: AuditRule
  readonly text: string
}

export class Auditor {
  readonly violations: Violation[] = []
  /** Two runs of one seed must write the same. */
  readonly transcript: string[] = []
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  note(text: string): void {
    this.transcript.push(`${this.#clock.now().toFixed(3)} ${text}`)
  }

  violate(rule: AuditRule, text: string): void {
    this.violations.push({ rule, text })
    this.note(`VIOLATION ${rule} (${auditRules[rule]}): ${text}`)
  }

  /** @throws Error naming every breach. */
  assertClean(): void {
    if (this.violations.length === 0) return
    const lines = this.violations.map(({ rule, text }) => `${rule}: ${text} [${auditRules[rule]}]`)
    throw new Error(lines.join('\n'))
  }
}
