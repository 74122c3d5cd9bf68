/** Once per run: what the tests start and load (build-fixtures.mjs). */
interface Fixtures {
  buildFixtures(): Promise<string>
}

export default async function setup(): Promise<void> {
  const { href } = new URL('./build-fixtures.mjs', import.meta.url)
  await ((await import(href)) as Fixtures).buildFixtures()
}
