/** Mutants that tell their listener something wrong, too early, too often or not at all. */
import { ConnectorError } from '../../src/index.ts'
import type { AgentListener, AnyConnectorError, TransferHandle } from '../../src/index.ts'
import { doneAtOnce, mapCompletions, noTimes } from './mutant.ts'
import type { Mutant } from './mutant.ts'

export const reportMutants: readonly Mutant[] = [
  {
    name: 'done is reported before the bytes are there',
    clause: 'A5.3',
    wrapAgent(agent) {
      let listener: AgentListener | null = null
      return {
        ...mapCompletions(agent, () => []),
        setListener(given) {
          listener = given
          agent.setListener({ ...given, onCompletions() {} })
        },
        post(posts, options) {
          const handles = agent.post(posts, options)
          queueMicrotask(() => listener!.onCompletions(handles.map(doneAtOnce)))
          return handles
        },
      }
    },
  },
  {
    name: 'the listener is called from inside post',
    clause: 'A5.1',
    wrapAgent(agent) {
      let listener: AgentListener | null = null
      return {
        ...agent,
        setListener(given) {
          listener = given
          agent.setListener({ ...given, onCompletions() {} })
        },
        post(posts) {
          const handles = agent.post(posts, { waitUntilPosted: true })
          listener!.onCompletions(handles.map(doneAtOnce))
          return handles
        },
      }
    },
  },
  {
    name: 'each completion is reported twice',
    clause: 'A5.2',
    wrapAgent: (agent) => mapCompletions(agent, (completion) => [completion, completion]),
  },
  {
    name: 'an overdue transfer is forgotten',
    clause: 'A8.1',
    wrapAgent: (agent) =>
      mapCompletions(agent, (completion) => (completion.status === 'overdue' ? [] : [completion])),
  },
  {
    name: 'overdue is taken for the end: nothing stays pinned',
    clause: 'A8.2',
    wrapAgent(agent) {
      const overdue = new Set<TransferHandle>()
      const told = mapCompletions(agent, (completion) => {
        if (completion.status === 'overdue') overdue.add(completion.transfer)
        return [completion]
      })
      return {
        ...told,
        releaseBlockTable(table) {
          if (overdue.size === 0) agent.releaseBlockTable(table)
        },
      }
    },
  },
  {
    name: 'removing a peer ends its transfers',
    clause: 'A8.4',
    wrapAgent(agent) {
      let listener: AgentListener | null = null
      const open = new Set<TransferHandle>()
      return {
        ...agent,
        setListener(given) {
          listener = given
          agent.setListener({
            onCompletions: (completions) => {
              for (const { transfer, status } of completions) {
                if (status !== 'overdue') open.delete(transfer)
              }
              given.onCompletions(completions)
            },
            onNotifications: (notifications) => given.onNotifications(notifications),
            onBroken: (error) => given.onBroken(error),
          })
        },
        post(posts, options) {
          const handles = agent.post(posts, options)
          for (const handle of handles) open.add(handle)
          return handles
        },
        async removePeer(peer) {
          await agent.removePeer(peer)
          const error = new ConnectorError('ERR_KV_CLOSED', 'peer removed', {
            what: 'peer',
          }) as AnyConnectorError
          listener!.onCompletions(
            [...open].map((transfer) => ({ transfer, status: 'failed', times: noTimes, error })),
          )
        },
      }
    },
  },
  {
    name: 'a failure is kept silent',
    clause: 'A9.1',
    wrapAgent: (agent) =>
      mapCompletions(agent, (completion) => (completion.status === 'failed' ? [] : [completion])),
  },
  {
    name: 'a failure is reported as done',
    clause: 'A9.1',
    wrapAgent: (agent) =>
      mapCompletions(agent, (completion) => [
        completion.status === 'failed' ? doneAtOnce(completion.transfer) : completion,
      ]),
  },
  {
    name: 'descriptors after merging are not counted',
    clause: 'A5.5',
    wrapAgent: (agent) =>
      mapCompletions(agent, (completion) => {
        if (completion.status !== 'done') return [completion]
        const { descriptorsBeforeMerge } = completion.times
        const times = { ...completion.times, descriptorsAfterMerge: descriptorsBeforeMerge }
        return [{ ...completion, times }]
      }),
  },
  {
    name: 'drain waits for nobody',
    clause: 'A10.1',
    wrapAgent: (agent) => ({ ...agent, drain: async () => {} }),
  },
  {
    name: 'close leaves open transfers unreported',
    clause: 'A10.5',
    wrapAgent: (agent) => ({ ...agent, close: () => agent.close({ deadlineMs: 0 }) }),
  },
]
