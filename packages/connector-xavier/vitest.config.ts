import { testProject } from '../../vitest.base.ts'

export default testProject('connector-xavier')
