import { testProject } from '../../vitest.base.ts'

export default testProject('reference-engine')
