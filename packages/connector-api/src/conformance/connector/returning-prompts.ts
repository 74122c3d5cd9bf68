/** C12: connectors that keep released KV. The history is the suite's own: slow, endless, and able to fail. */
import type { Cluster } from '../../testing/cluster/cluster.ts'
import type { Journey } from '../../testing/cluster/cluster-router.ts'
import { ToyHistories } from '../../testing/cluster/toy-history.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'
import type { ConnectorContext } from './context.ts'

const shortCopyMs = 20
/** Longer than any request takes on a fabric that is quick. */
const longCopyMs = 2_000
/** Of a returning prompt, on a fabric that is quick: its restore and its handoff, in timers. */
const momentCount = 40

interface Keeping {
  readonly cluster: Cluster
  readonly histories: ToyHistories
}

async function openKeeping(context: ConnectorContext, copyMs = shortCopyMs): Promise<Keeping> {
  const histories = new ToyHistories(copyMs)
  return { cluster: await context.open({ engines: { history: () => histories } }), histories }
}

/** Prompt 1 has been served, and is in the producer's history. */
async function keep(context: ConnectorContext, { cluster, histories }: Keeping): Promise<void> {
  await context.serveWell(cluster, { prompt: 1 })
  await context.settle(cluster)
  assert.ok(savedIn(histories) > 0, 'nothing was kept')
}

const savedIn = ({ opened }: ToyHistories): number =>
  opened.reduce((sum, { savedBlockCount }) => sum + savedBlockCount, 0)
const hitsIn = ({ opened }: ToyHistories): number =>
  opened.reduce((sum, { hitBlockCount }) => sum + hitBlockCount, 0)

function assertNoLease({ opened }: ToyHistories): void {
  for (const { openLeaseCount } of opened) assert.equal(openLeaseCount, 0, 'reservations are open')
}

/** Prompt 1 comes again, and is disturbed at each moment of its course, on a cluster of its own each time. */
async function whileReturning(
  context: ConnectorContext,
  disturb: (keeping: Keeping, journey: Journey) => void,
): Promise<void> {
  for (let moment = 0; moment < momentCount; moment += 2) {
    const keeping = await openKeeping(context)
    const { cluster, histories } = keeping
    await keep(context, keeping)
    const journey = context.serve(cluster, { prompt: 1 })
    let left = moment
    await cluster.world.clock.runUntil(() => left-- <= 0, context.target.outcomeBoundMs)
    cluster.auditor.note(`the disturbance, at moment ${moment}`)
    disturb(keeping, journey)
    await context.settle(cluster)
    assertNoLease(histories)
  }
}

export const returningPrompts: ConnectorGroupRuns<'C12'> = {
  async 'C12.1'(context) {
    const keeping = await openKeeping(context)
    await keep(context, keeping)
    for (const promptTokenCount of [30, 45, 17]) {
      const before = hitsIn(keeping.histories)
      const { producer } = await context.serveWell(keeping.cluster, { prompt: 1, promptTokenCount })
      assert.ok(
        producer!.externalTokenCount > 0,
        `${promptTokenCount} tokens: nothing was restored`,
      )
      assert.equal(producer!.loadError, null)
      assert.ok(hitsIn(keeping.histories) > before, 'the history restored nothing')
    }
    const { producer } = await context.serveWell(keeping.cluster, { prompt: 2 })
    assert.equal(producer!.externalTokenCount, 0, 'another prompt’s KV was promised')
    await context.settle(keeping.cluster)
    assertNoLease(keeping.histories)
  },
  async 'C12.2'(context) {
    const keeping = await openKeeping(context, longCopyMs)
    const { cluster, histories } = keeping
    await context.serveWell(cluster, { prompt: 1 })
    assert.equal(savedIn(histories), 0, 'the copies have not ended yet')
    assert.ok(cluster.engine('p0').heldBlockCount > 0, 'blocks that are being copied are free')
    await context.settle(cluster)
    assert.ok(savedIn(histories) > 0, 'nothing was kept')
    await context.serveWell(cluster, { prompt: 1 })
    await context.settle(cluster)
  },
  async 'C12.3'(context) {
    await whileReturning(context, ({ cluster }, { producer }) => {
      if (producer !== null) cluster.engine('p0').abort(producer.id)
    })
  },
  async 'C12.4'(context) {
    for (const fault of ['losesLeases', 'failsRestores'] as const) {
      const keeping = await openKeeping(context)
      await keep(context, keeping)
      for (const history of keeping.histories.opened) history.faults[fault] = true
      const journey = await context.serveWell(keeping.cluster, { prompt: 1 })
      assert.ok(journey.producer!.loadError !== null, `${fault}: no error was reported`)
      await context.settle(keeping.cluster)
      assertNoLease(keeping.histories)
    }
  },
  async 'C12.5'(context) {
    await whileReturning(context, ({ cluster }) => {
      const engine = cluster.engine('p0')
      engine.isClosed = true
      void engine.host.shutdown()
    })
  },
}
