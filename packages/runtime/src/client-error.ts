/**
 * Answers to connections on which no request could be read: bytes that aren't HTTP, headers without end, a
 * caller that never finishes. For Node's `clientError` event; the HTTP programs of this workspace give
 * their form of an error, so that these look like all others.
 */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

interface BrokenRequest {
  readonly status: number
  readonly message: string
}

function describe(code = 'unreadable'): BrokenRequest {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return { status: 408, message: 'the request was not complete in time' }
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return { status: 431, message: 'the headers of the request are too large' }
  }
  return { status: 400, message: `not an HTTP request (${code})` }
}

/** `describeBody` makes the JSON body; the connection ends after it. */
export function createClientErrorHandler(
  describeBody: (request: BrokenRequest) => object,
): (error: NodeJS.ErrnoException, socket: Socket) => void {
  return (error, socket) => {
    // Whoever reset the connection hears nothing, and bytes after an answer would garble it.
    if (error.code === 'ECONNRESET' || !socket.writable || socket.bytesWritten > 0) {
      socket.destroy()
      return
    }
    const broken = describe(error.code)
    const body = JSON.stringify(describeBody(broken))
    const head = [
      `HTTP/1.1 ${broken.status} ${STATUS_CODES[broken.status] ?? ''}`,
      'content-type: application/json; charset=utf-8',
      `content-length: ${Buffer.byteLength(body)}`,
      'connection: close',
    ]
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  }
}
