/** `kvferry`, started by bin/kvferry.mjs: connects the commands to this process and nothing more. */
import { runCli } from './cli/program.ts'

process.exitCode = await runCli(process.argv.slice(2), {
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
})
