/**
 * Progress on stderr: one line that rewrites itself on a terminal, one line per phase otherwise. Never
 * touches stdout, which belongs to results.
 */
export interface Progress {
  /** Starts a phase; `total` > 0 makes it countable. */
  phase(title: string, total?: number): void
  /** `done` of the phase's total so far. */
  tick(done: number): void
  /** A line that stays. */
  note(line: string): void
  end(): void
}

export interface ProgressStream {
  readonly isTTY?: boolean
  write(text: string): unknown
}

const barWidth = 24

export function createProgress(stream: ProgressStream): Progress {
  const isTerminal = stream.isTTY === true
  let title = ''
  let total = 0
  let shownShare = -1

  const clear = (): void => {
    if (isTerminal && title !== '') stream.write('\r\u001b[2K')
  }
  const draw = (done: number): void => {
    const filled = total > 0 ? Math.round((done / total) * barWidth) : 0
    const bar = total > 0 ? ` [${'='.repeat(filled)}${' '.repeat(barWidth - filled)}]` : ''
    const count = total > 0 ? ` ${done}/${total}` : ''
    stream.write(`\r\u001b[2K${title}${bar}${count}`)
  }

  return {
    phase(nextTitle, nextTotal = 0) {
      clear()
      title = nextTitle
      total = nextTotal
      shownShare = -1
      if (isTerminal) draw(0)
      else stream.write(`${title}${total > 0 ? ` (${total})` : ''}\n`)
    },
    tick(done) {
      if (!isTerminal || total === 0) return
      const share = Math.floor((done / total) * 100)
      if (share === shownShare) return
      shownShare = share
      draw(done)
    },
    note(line) {
      clear()
      stream.write(`${line}\n`)
      if (isTerminal && title !== '') draw(0)
    },
    end() {
      clear()
      title = ''
    },
  }
}

export const silentProgress: Progress = { phase() {}, tick() {}, note() {}, end() {} }
