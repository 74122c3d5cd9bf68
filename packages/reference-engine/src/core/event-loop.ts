/** Resolves when what has arrived for this thread so far (messages, bytes, native completions) has been handled. */
export const turnOfEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
