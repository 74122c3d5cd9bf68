/**
 * The names of an engine's agents, one per rank: unique among all engines and lives, and told in the
 * handshake, so that nobody else has to know how they are made.
 */
import type { CoreConfig } from './core-messages.ts'

export function agentNames({ engineId, incarnation, settings }: CoreConfig): string[] {
  const name = `${engineId}:${incarnation}`
  return Array.from({ length: settings.tpSize }, (_, rank) =>
    rank === 0 ? name : `${name}:${rank}`,
  )
}
