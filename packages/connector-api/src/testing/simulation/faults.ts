/**
 * Lets one planned fault happen to a cluster, and its end: what it broke works again after its length, so
 * that a run can ask whether everything comes to its end once faults are over. Runs inside timers.
 */
import { ConnectorError } from '../../errors.ts'
import type { AnyConnectorError } from '../../errors.ts'
import { asEngineId } from '../../ids.ts'
import { assertNever } from '../../assert.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { PlannedFault } from './plan.ts'
import type { RecentNotifications } from './recent-notifications.ts'

const notificationDelayMsMax = 300
const messageDelayMsMax = 100
/** A forger tries again and again: it can't know when somebody waits for something. */
const forgeryCount = 50
const forgeryPeriodMs = 3
/** How often it is seen whether a transfer runs, and how far into it a kill may be. */
const lookPeriodMs = 1
const intoTransferMsMax = 8

export function applyFault(
  cluster: Cluster,
  fault: PlannedFault,
  heard: RecentNotifications,
): void {
  cluster.auditor.note(
    `fault ${fault.kind} ${fault.producer} ${fault.consumer} (${fault.victim}), ${fault.lengthMs.toFixed(0)} ms`,
  )
  const undo = start(cluster, fault, heard)
  if (undo === null) return
  cluster.world.clock.after(fault.lengthMs, () => {
    cluster.auditor.note(`end of ${fault.kind}`)
    undo()
  })
}

/** Breaks it; returns how it is mended, or null when there is nothing to mend. */
function start(
  cluster: Cluster,
  fault: PlannedFault,
  heard: RecentNotifications,
): (() => void) | null {
  const { channels, fabric } = cluster.world
  const [p, d] = [asEngineId(fault.producer), asEngineId(fault.consumer)]
  switch (fault.kind) {
    case 'partition':
      channels.faults.partition(p, d)
      return () => channels.faults.heal(p, d)
    case 'break-associations':
      channels.faults.breakAssociations(p, d)
      return null
    case 'stall-transfers':
      return onAgents(cluster, fault.victim, (name) => {
        fabric.faults.stall(name)
        return () => fabric.faults.unstall(name)
      })
    case 'fail-transfers':
      return onAgents(cluster, fault.victim, (name) => {
        fabric.faults.failNextPosts(name, 1 + Math.floor(3 * fault.strength))
        return () => fabric.faults.failNextPosts(name, 0)
      })
    case 'lose-notifications':
      fabric.faults.notifications.lossChance = fault.strength
      return () => (fabric.faults.notifications.lossChance = 0)
    case 'duplicate-notifications':
      fabric.faults.notifications.duplicateChance = fault.strength
      return () => (fabric.faults.notifications.duplicateChance = 0)
    case 'delay-notifications':
      fabric.faults.notifications.extraDelayMs = notificationDelayMsMax * fault.strength
      return () => (fabric.faults.notifications.extraDelayMs = 0)
    case 'delay-messages':
      channels.faults.extraDelayMs = messageDelayMsMax * fault.strength
      return () => (channels.faults.extraDelayMs = 0)
    case 'forge-notifications':
      return onAgents(cluster, fault.victim, (name) => {
        for (let count = 0; count < forgeryCount; count += 1) {
          cluster.world.clock.after(count * forgeryPeriodMs, () => {
            for (const message of heard.forge(cluster.world.random)) {
              fabric.forge(name, { from: 'nobody', message })
            }
          })
        }
        return () => undefined
      })
    case 'stop-host':
      return stopHost(cluster, fault.victim)
    case 'break-host':
      return breakHost(cluster, fault.victim)
    case 'kill':
      return kill(cluster, fault.victim)
    case 'kill-in-transfer':
      return killInTransfer(cluster, fault)
    default:
      return assertNever(fault.kind)
  }
}

/** On every agent of the engine's present life, if it lives. */
function onAgents(
  cluster: Cluster,
  name: string,
  act: (agentName: string) => () => void,
): (() => void) | null {
  const engine = cluster.engine(name)
  if (engine.isHalted) return null
  const undos = engine.host.ranks.map(({ agent }) => act(agent.name))
  return () => undos.forEach((undo) => undo())
}

/** SIGSTOP of what moves bytes and messages; the engine itself goes on stepping. */
function stopHost(cluster: Cluster, name: string): (() => void) | null {
  const { channels, fabric } = cluster.world
  const id = asEngineId(name)
  return onAgents(cluster, name, (agentName) => {
    channels.faults.stop(id)
    fabric.faults.stop(agentName)
    return () => {
      channels.faults.resume(id)
      fabric.faults.resume(agentName)
    }
  })
}

/** What moves bytes fails for good; the engine is ended when that was noticed, and comes back. */
function breakHost(cluster: Cluster, name: string): (() => void) | null {
  const details = { operation: 'poll', status: 'broken' }
  const broken = new ConnectorError('ERR_NIXL', 'broken', details) as AnyConnectorError
  const undo = onAgents(cluster, name, (agentName) => {
    cluster.world.fabric.faults.break(agentName, broken)
    return () => undefined
  })
  if (undo === null) return null
  const life = cluster.engine(name)
  return () => {
    if (life.isHalted) return
    cluster.kill(name)
    cluster.startSoon(name)
  }
}

/** SIGKILL, and a new life some time later. */
function kill(cluster: Cluster, name: string): (() => void) | null {
  if (cluster.engine(name).isHalted) return null
  cluster.kill(name)
  return () => cluster.startSoon(name)
}

/**
 * SIGKILL while a transfer that the victim began is under way, if there is one in time: what it leaves at its
 * peer is met by chance too seldom.
 */
function killInTransfer(cluster: Cluster, { victim, strength }: PlannedFault): (() => void) | null {
  const { clock } = cluster.world
  const life = cluster.engine(victim)
  let isOver = life.isHalted
  let isKilled = false
  const end = (): void => {
    if (isOver || life.isHalted) return
    isKilled = true
    cluster.kill(victim)
  }
  const look = (): void => {
    if (isOver || life.isHalted) return
    const isMoving = life.host.ranks.some(({ agent }) => agent.counters().transfersOpen > 0)
    if (isMoving) clock.after(strength * intoTransferMsMax, end)
    else clock.after(lookPeriodMs, look)
  }
  look()
  return () => {
    isOver = true
    if (isKilled) cluster.startSoon(victim)
  }
}
