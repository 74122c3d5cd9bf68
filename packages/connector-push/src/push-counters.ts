/** What one worker counts. */
import { Counters } from '@kvferry/connector-api/protocol'
import { writeCounterNames, type WriteCounters } from '@kvferry/connector-api/remote-writes'

export const createCounters = (): WriteCounters => new Counters(writeCounterNames)
