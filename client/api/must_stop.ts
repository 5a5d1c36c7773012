/** A reason to stop trading that no repetition repairs: another account, a venue that fails its verification, lost events. */
import { TacitError } from '../../protocol/tacit_error'

export abstract class MustStop<Facts extends object = object> extends TacitError<Facts> {}
