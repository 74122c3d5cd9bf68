/** What the HTTP framework refuses of a body before any handler sees it, said so that a client can mend it. */
export interface BodyRefusal {
  readonly status: 413 | 415
  readonly code: 'ERR_KV_LIMIT' | 'ERR_KV_MESSAGE_INVALID'
  readonly message: string
}

/** Null where `error` is something else. `sizeBytesMax` is the body limit that the server was made with. */
export function bodyRefusal(error: unknown, sizeBytesMax: number): BodyRefusal | null {
  switch ((error as { readonly code?: unknown } | null)?.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return {
        status: 413,
        code: 'ERR_KV_LIMIT',
        message: `the body is larger than ${sizeBytesMax} bytes; send a shorter prompt`,
      }
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return {
        status: 415,
        code: 'ERR_KV_MESSAGE_INVALID',
        message:
          'content-type does not say that the body is JSON; use content-type: application/json',
      }
    default:
      return null
  }
}
