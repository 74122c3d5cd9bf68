import { testProject } from '../../vitest.base.ts'

export default testProject('e2e', { testTimeoutMs: 240_000, isolate: true })
