/** Messages between the main thread and the core's thread, and errors in a form that survives the crossing. */
import { ConnectorError } from '@kvferry/connector-api'
import type { ConnectorErrorCode, ConnectorErrorDetails } from '@kvferry/connector-api'
import type { LogLevel } from '@kvferry/runtime'
import type { CoreConfig, CoreEvent, CoreSubmit, PeerView } from './core-messages.ts'

export interface CoreWorkerData {
  readonly config: CoreConfig
  readonly logLevel: LogLevel
}

export type Question = 'stats' | 'metrics' | 'debug'

export type ToCore =
  | { readonly kind: 'submit'; readonly submit: CoreSubmit }
  | { readonly kind: 'abort'; readonly requestId: string }
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question }
  | { readonly kind: 'close'; readonly deadlineMs: number }

export type FromCore =
  | { readonly kind: 'ready'; readonly peer: PeerView }
  | { readonly kind: 'refused'; readonly error: PlainError }
  | { readonly kind: 'events'; readonly events: readonly CoreEvent[] }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'fatal'; readonly error: PlainError }
  | { readonly kind: 'closed' }

export interface PlainError {
  readonly code: ConnectorErrorCode | null
  readonly message: string
  readonly details: unknown
}

export function toPlainError(error: unknown): PlainError {
  if (ConnectorError.isInstance(error)) {
    return { code: error.code, message: error.message, details: error.details }
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { code: null, message, details: null }
}

export function fromPlainError({ code, message, details }: PlainError): Error {
  if (code === null) return new Error(message)
  return new ConnectorError(code, message, details as ConnectorErrorDetails[ConnectorErrorCode])
}
