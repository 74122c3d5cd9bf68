import { testProject } from '../vitest.base.ts'

export default testProject('benchmarks', { testTimeoutMs: 60_000 })
