/**
 * The credentials in use, and their renewal without a restart: looks at the files, and when they changed
 * and have come to rest, new connections use the new ones. Files that can't be used leave the old ones in
 * use, and say so until they are mended. Looking is by `stat`, because certificates are often replaced
 * through symbolic links, which file watchers miss.
 */
import { stat } from 'node:fs/promises'
import type { Clock, Logger, Timer, TlsFiles } from '@kvferry/connector-api'
import { loadCredentials, type Credentials } from './credentials.ts'
import { tlsLimits } from './limits.ts'

export interface CredentialStoreOptions {
  readonly files: TlsFiles
  readonly engineId: string
  readonly clock: Clock
  readonly logger: Logger
}

/** Changes whenever one of the files does. */
async function signatureOf({ ca, cert, key }: TlsFiles): Promise<string> {
  const parts = await Promise.all(
    [ca, cert, key].map(async (path) => {
      try {
        const { ino, size, mtimeMs, ctimeMs } = await stat(path)
        return [ino, size, mtimeMs, ctimeMs].join(':')
      } catch (error) {
        return String((error as NodeJS.ErrnoException).code)
      }
    }),
  )
  return parts.join(' ')
}

export class CredentialStore {
  readonly #options: CredentialStoreOptions
  readonly #listeners: ((credentials: Credentials) => void)[] = []
  #current: Credentials
  /** Of the files that were tried last, whether they could be used or not. */
  #tried: string
  /** Of the last look; files are read only when two looks found the same. */
  #seen: string
  #complaint: { readonly reason: string; readonly at: number } | null = null
  #timer: Timer | null = null
  #isClosed = false

  private constructor(options: CredentialStoreOptions, current: Credentials, signature: string) {
    this.#options = options
    this.#current = current
    this.#tried = signature
    this.#seen = signature
    this.#noticeExpiry()
    this.#schedule()
  }

  /** @throws ConnectorError ERR_KV_CONFIG as `loadCredentials`. */
  static async open(options: CredentialStoreOptions): Promise<CredentialStore> {
    const signature = await signatureOf(options.files)
    const credentials = await loadCredentials(options.files, options.engineId)
    return new CredentialStore(options, credentials, signature)
  }

  get current(): Credentials {
    return this.#current
  }

  onChange(listener: (credentials: Credentials) => void): void {
    this.#listeners.push(listener)
  }

  /** One look; the timer's, and for tests. Never rejects. */
  async look(): Promise<void> {
    const signature = await signatureOf(this.#options.files)
    const isAtRest = signature === this.#seen
    this.#seen = signature
    if (this.#isClosed) return
    if (isAtRest && signature !== this.#tried) await this.#reload(signature)
    else this.#repeatComplaint()
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.stop()
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer = this.#options.clock.after(tlsLimits.lookIntervalMs, () => {
      void this.look().finally(() => this.#schedule())
    })
  }

  async #reload(signature: string): Promise<void> {
    const { files, engineId, logger } = this.#options
    this.#tried = signature
    try {
      const credentials = await loadCredentials(files, engineId)
      if (this.#isClosed) return
      this.#current = credentials
      this.#complaint = null
      const until = new Date(credentials.notAfter).toISOString()
      logger.info('certificates reloaded: new connections use them', { until })
      this.#noticeExpiry()
      for (const listener of this.#listeners) listener(credentials)
    } catch (error) {
      this.#complain(error instanceof Error ? error.message : String(error))
    }
  }

  #complain(reason: string): void {
    this.#complaint = { reason, at: this.#options.clock.now() }
    const message = 'certificates NOT reloaded: the old ones stay in use'
    this.#options.logger.error(message, { reason })
  }

  #repeatComplaint(): void {
    const { clock } = this.#options
    const complaint = this.#complaint
    if (complaint === null || clock.now() - complaint.at < tlsLimits.complaintIntervalMs) return
    this.#complain(complaint.reason)
  }

  #noticeExpiry(): void {
    const { notAfter, engineId } = this.#current
    if (notAfter - Date.now() > tlsLimits.expiryNoticeMs) return
    const until = new Date(notAfter).toISOString()
    this.#options.logger.warn(`the certificate of engine "${engineId}" ends soon`, { until })
  }
}
