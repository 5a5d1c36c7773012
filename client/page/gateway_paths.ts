/** Names that the pages and their server share. */
export const PEER_PATH = '/peer'
export const VENUE_PATH = '/venue/'
export const ADMIT_PATH = '/admit'
/** No venue answers it: the connection failed, and what became of a command is not known. */
export const LOST_STATUS = 599
