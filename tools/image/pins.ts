/** What goes into the image beside this repository, by hash. */

/** The Bun version of package.json's `engines`, as published in npm's `@oven/bun-linux-x64` of that version. */
export const BUN_SHA256 = '10702245766b225e70bbf6235fd6b47214fd94b4760d00ffaed8ab0df57ac235'
export const BUN_PACKAGE = '@oven/bun-linux-x64'

/** The user the process runs as, and the owner of its data folder. */
export const VENUE_USER = 10_001
/** Every time stamp in the image, seconds (reproducible-builds.org, SOURCE_DATE_EPOCH). */
export const SOURCE_DATE_EPOCH = 0
