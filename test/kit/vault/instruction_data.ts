/** Decodes the data of instructions that the product only encodes; undefined when they are not exactly one. */

import { DEPOSIT_FORMS } from '../../../protocol/vault/deposit'
import { EPOCH_FORMS } from '../../../protocol/vault/epochs'
import { decoded } from '../../../protocol/vault/instruction'
import { QUEUE_FORMS } from '../../../protocol/vault/queue'

export const decodeDeposit = (data: Uint8Array) => decoded(DEPOSIT_FORMS.deposit.data, data)
export const decodeAnchor = (data: Uint8Array) => decoded(EPOCH_FORMS.anchor.data, data)
export const decodePay = (data: Uint8Array) => decoded(QUEUE_FORMS.pay.data, data)
