/** Lists every instruction of the vault with data layout and accounts: the one source of client, IDL and audit table. */
import { ADMIN_FORMS, ANNOUNCE_FORMS } from './admin'
import { ATTESTED_EPOCH_FORMS, EPOCH_FORMS, PLATFORM_FORMS } from './epochs'
import { EVENT_FORMS } from './events'
import { CLAIM_FORMS, DEPOSIT_FORMS, EXIT_FORMS } from './exits'
import type { InstructionForm, InstructionName } from './instruction'
import { QUEUE_FORMS, SETTLE_FORMS } from './settle'

export const INSTRUCTION_FORMS: Readonly<Record<InstructionName, InstructionForm>> = {
  ...ADMIN_FORMS,
  ...DEPOSIT_FORMS,
  ...EPOCH_FORMS,
  ...SETTLE_FORMS,
  ...EXIT_FORMS,
  ...QUEUE_FORMS,
  ...CLAIM_FORMS,
  ...ANNOUNCE_FORMS,
  ...PLATFORM_FORMS,
  ...ATTESTED_EPOCH_FORMS,
  ...EVENT_FORMS,
}
