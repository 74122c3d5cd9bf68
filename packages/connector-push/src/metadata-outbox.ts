/** What the scheduler half has yet to tell the worker half. Owned by scheduler.ts. */
import { EntryOutbox } from '@kvferry/connector-api/protocol'
import { encodeMetadata, entrySizeBytes, type MetadataEntry } from './metadata.ts'

export type MetadataOutbox = EntryOutbox<MetadataEntry>

export const createOutbox = (): MetadataOutbox =>
  new EntryOutbox({
    encode: encodeMetadata,
    sizeBytesOf: entrySizeBytes,
    beginningOf: { release: 'offer', withdraw: 'announce' },
  })
