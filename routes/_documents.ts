/** The reference pages of the origin, made once at start. */
export type Documents = { json: string; html: string; css: string }
