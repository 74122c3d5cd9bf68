/**
 * What upstream's tests of its connectors look at, in our words and by our numbers, and the clauses that look
 * at the same; tests of ours name a number in their title. For upstream-page.test.ts.
 */
import type { ConnectorClauseId } from '../src/conformance/connector-clauses.ts'
import type { AgentClauseId } from '../src/conformance/clauses.ts'

export interface UpstreamTest {
  readonly id: number
  readonly sentence: string
  readonly clauses?: readonly (ConnectorClauseId | AgentClauseId)[]
  /** Why no test of ours names it. */
  readonly absent?: string
}

export const upstreamTests: readonly UpstreamTest[] = [
  { id: 1, sentence: 'P holds a finished prompt’s blocks until they are sent' },
  { id: 2, sentence: 'a prompt shorter than a block is one block', clauses: ['C2.1'] },
  { id: 3, sentence: 'P hands over all blocks, also those that it had cached' },
  { id: 4, sentence: 'D waits for its blocks, then computes the last token only' },
  { id: 5, sentence: 'other requests go on while one waits for its blocks', clauses: ['C2.3'] },
  { id: 6, sentence: 'blocks that are being loaded are invisible to other requests' },
  { id: 7, sentence: 'a prompt of whole blocks: its last token is computed in the last of them' },
  {
    id: 8,
    sentence: 'without room D waits, and asking changes nothing',
    clauses: ['C2.7', 'C3.1'],
  },
  { id: 9, sentence: 'a partial block is loaded, too', clauses: ['C2.1'] },
  { id: 10, sentence: 'a request aborted at once is told to P', clauses: ['C5.1'] },
  {
    id: 11,
    sentence: 'aborts reach the worker half; without a reader the blocks come free',
    clauses: ['C4.2', 'C5.1'],
  },
  { id: 12, sentence: 'what a handshake carries survives the way' },
  {
    id: 13,
    sentence: 'many loads of one engine: one handshake, each reported once',
    clauses: ['C2.3'],
  },
  { id: 14, sentence: 'a slow handshake does not hold up the engine’s step' },
  { id: 15, sentence: 'P with more TP ranks than D', clauses: ['C11.14', 'C11.15'] },
  { id: 16, sentence: 'handshakes with several engines at once', clauses: ['C2.3'] },
  {
    id: 17,
    sentence: 'caches in another order are mapped, or refused',
    clauses: ['C8.2', 'C11.14', 'C11.20'],
  },
  { id: 18, sentence: 'engines that differ in a fact refuse each other', clauses: ['C8.2'] },
  { id: 19, sentence: 'a handshake of garbage fails cleanly', clauses: ['C7.7'] },
  {
    id: 20,
    sentence: 'caches are registered where they lie, and once',
    clauses: ['A1.8', 'A3.1', 'A3.2'],
  },
  {
    id: 21,
    sentence: 'each kind of failed transfer is told by name',
    clauses: ['C6.1', 'C6.6', 'C9.4'],
  },
  { id: 22, sentence: 'a failed handshake or transfer ends its load', clauses: ['C6.1', 'C6.7'] },
  { id: 23, sentence: 'MLA: the notification has P’s request id' },
  { id: 24, sentence: 'closing gives back everything once', clauses: ['C10.1', 'C10.2'] },
  { id: 25, sentence: 'statistics count and drain', clauses: ['C1.5'] },
  { id: 26, sentence: 'requests that wait are renewed, grouped by engine' },
  { id: 27, sentence: 'renewals stop with the load or the request' },
  { id: 28, sentence: 'one renewal an interval and engine' },
  { id: 29, sentence: 'a renewal extends, never shortens; unknown ids are ignored' },
  { id: 30, sentence: 'leases end in the order of their deadlines, on clocks of any origin' },
  {
    id: 31,
    sentence: 'a failed load is computed from its first bad block on, or ends its request',
    clauses: ['C6.1', 'C6.2'],
  },
  { id: 32, sentence: 'bad blocks leave the prefix cache' },
  { id: 33, sentence: 'loads in flight count toward the limits, without a deadlock' },
  { id: 34, sentence: 'an abort while loading frees after the report', clauses: ['C5.3'] },
  {
    id: 35,
    sentence: 'conversations: what P loads from D, and what it computes',
    clauses: ['C11.7'],
  },
  { id: 36, sentence: 'D hands over in turn, and delays freeing' },
  { id: 37, sentence: 'P does not read twice' },
  { id: 38, sentence: 'P gives up while it is sending or reading', clauses: ['C5.2'] },
  { id: 39, sentence: 'a read that would come too late is declined, on two clocks' },
  { id: 40, sentence: 'D tells a registration with its transfer and its blocks' },
  { id: 41, sentence: 'P tells its finished blocks once; both drain', clauses: ['C3.2'] },
  { id: 42, sentence: 'pending work is true from the end of a prefill to its report' },
  { id: 43, sentence: 'reports clear what they name; unknown ids are ignored', clauses: ['C3.6'] },
  { id: 44, sentence: 'a registration that nobody serves ends at its deadline', clauses: ['C6.5'] },
  { id: 45, sentence: 'nothing to do: no params, no tokens, no end, no blocks', clauses: ['C2.8'] },
  {
    id: 46,
    sentence: 'the prompt of a Mamba model is cut',
    absent: 'the state of a Mamba layer is a second KV group, and a request of two is refused',
    clauses: ['C11.12'],
  },
  { id: 47, sentence: 'a registration reaches every rank, and is understood' },
  { id: 48, sentence: 'before the handshake it waits; a failed handshake is a failed load' },
  { id: 49, sentence: 'registration first or prefill first', clauses: ['C11.11'] },
  { id: 50, sentence: 'other transfer ids never pair', clauses: ['C8.4'] },
  {
    id: 51,
    sentence: 'malformed registrations are dropped, and the loop lives',
    clauses: ['C7.7'],
  },
  { id: 52, sentence: 'the same registration twice', clauses: ['C7.2', 'C11.8'] },
  { id: 53, sentence: 'a transfer that waits for a handshake holds up no other' },
  { id: 54, sentence: 'D’s heartbeats keep P’s blocks', clauses: ['C4.1'] },
  { id: 55, sentence: 'as many completions as producer ranks', clauses: ['C11.15', 'C11.16'] },
  { id: 56, sentence: 'P is done with its last WRITE; failures are told; nothing is told twice' },
  { id: 57, sentence: 'many entries dropped at once, none, and unknown ones' },
  { id: 58, sentence: 'an engine that is waited on is not forgotten', clauses: ['C6.9'] },
  { id: 59, sentence: 'pipeline stages' },
  {
    id: 60,
    sentence: 'MLA: every rank of D is written',
  },
  {
    id: 61,
    sentence: 'what D has cached is not written: P’s blocks count from their end',
    clauses: ['C2.2'],
  },
  {
    id: 62,
    sentence: 'ranks of context parallelism do nothing',
    absent:
      'ranks are of TP or PP in the contract, and the vLLM bridge refuses engines of more than one',
  },
  {
    id: 63,
    sentence: 'short prompts, full hits and partial hits give the text of one engine',
    clauses: ['C2.1', 'C2.2'],
  },
  {
    id: 64,
    sentence: 'texts over TP sizes, block sizes and layouts',
    clauses: ['C11.5', 'C11.14', 'C11.20'],
  },
  { id: 65, sentence: 'speculative decoding accepts as much' },
  {
    id: 66,
    sentence: 'an engine is killed in mid-transfer, the other one lives',
    clauses: ['C6.3', 'C6.4'],
  },
  {
    id: 67,
    sentence: 'beside an offloading connector',
    absent: 'one connector serves an engine; what it offloads is xavier’s history',
  },
]

/**
 * Accidents of vLLM's pull connector and of what surrounds it, by their issues: each is a test of its name. Left
 * out are what concerns push alone, a transport (#27055, #52607), one connector inside another (#20609), and a
 * change that was mended before it was merged (#44455).
 */
export const knownPullAccidents = [
  // Engines that crash or hang.
  ...['#18631', '#20440', '#46240', '#25067', '#25562', 'llm-d #187', '#41863', 'llm-d #191'],
  ...['#23587', '#23086', '#29369', '#51505', '#54707', '#54757', '#33745', '#40364'],
  ...['#25056', '#20965', '#25059', '#23756', 'dynamo #14838'],
  // Blocks that leak or are freed too early.
  ...['#20139', '#21570', 'aws-do-eks #84', '#25897', '#35764', '#38027', '#41383', '#50789'],
  ...['#58222', '#32255', '#41269', '#43509', '#47021', '#54689', '#58063'],
  // Wrong output.
  ...['#52234', '#57661', '#37333', '#42895', '#43523', '#50765', '#45330', '#58470', '#38935'],
  ...['#47871', '#27987', '#29665', '#53780', 'kvcached #311', 'kvcached #312'],
  // Configuration, latency and metrics.
  ...['#49230', '#50620', 'dynamo #10027', 'dynamo #12821', '#45880'],
  ...['#27083', '#55776', '#19777', '#45211', '#53333', '#55434', '#55854'],
  ...['#25388', '#26811', '#32340', '#41230', 'NIXL #1142', 'NIXL #1182', 'UCCL #1015'],
  // Memory that grows with what was long ago.
  '#24264',
] as const

/**
 * Accidents of vLLM's push connector, by the names of its audit and its issues: each is a scenario. Of the audit's
 * S1 to S4 the list of known defects has no S3, so there is none here.
 */
export const knownDefects = [
  ...['C1', 'C2', 'C3', 'L1', 'S1', 'S2', 'S4', 'X1', 'O1', '#53095', '#55470', '#58188'],
  ...['orphan registration', 'multi-prompt'],
] as const
