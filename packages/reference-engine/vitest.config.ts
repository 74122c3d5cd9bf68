import { testProject } from '../../vitest.base.ts'

// Whole engines on a busy machine: seconds of work, no waiting for time.
export default testProject('reference-engine', { testTimeoutMs: 30_000 })
