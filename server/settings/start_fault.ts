/** Says why a start failed: the error itself, and for an error of the system its cause and what to do. */

const CAUSES: Readonly<Record<string, string>> = {
  ENOSPC: "the volume is full: make it larger or delete what is not the venue's",
  EDQUOT: 'the quota of the volume is used up: raise it',
  EROFS: 'the volume is mounted read-only: mount it for writing',
  EACCES: 'this user may not use the file: correct owner or mode',
  EPERM: 'this user may not use the file: correct owner or mode',
  ENOENT: 'a file or socket is missing: put it back, or correct the setting that names it',
  ENOTDIR: 'a file is where a folder is needed: correct the setting that names it',
  EEXIST: 'a file is where a folder is needed: move it away',
  EIO: "the disk answers with errors: read the kernel's log and replace the volume",
  EMFILE: 'too many open files: raise the limit of the process',
}

/** @param data_dir folder of the venue's data, named where the error names no file */
export function startFault(error: unknown, data_dir: string): string {
  if (!(error instanceof Error)) return 'the venue did not start'
  const { code, path } = error as NodeJS.ErrnoException
  if (code === undefined || !Object.hasOwn(CAUSES, code)) return error.message
  return `${error.message}\n${path ?? data_dir}: ${CAUSES[code]}`
}
