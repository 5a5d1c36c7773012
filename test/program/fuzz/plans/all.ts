/** Every plan by the name of its instruction, and what a thief would try. */
import {
  planAnnounce,
  planAuthorizeRestore,
  planDeclareOutage,
  planOpenAttestedEpoch,
  planPause,
  planRegisterPlatform,
  planSetAdmin,
  planUnpause,
} from './admin'
import {
  planChallengeEscape,
  planClaimEscape,
  planCloseExit,
  planForgedRefusal,
  planForgedRequest,
  planFreeze,
  planPayEscape,
  planRedirectEscape,
  planRefuseExit,
  planRequestExit,
} from './exits'
import { planAnchor, planDeposit, planInitialize, planRegisterMint } from './opening'
import type { Planner } from './plan'
import { planGrowQueue, planPay, planRefund, planSettle } from './settle'

/** `weight`: how often an honest world takes it, 0 for never. `aim`: how often it is mutated. */
export const PLANS: readonly { name: string; plan: Planner; weight: number; aim: number }[] = [
  { name: 'initialize', plan: planInitialize, weight: 0, aim: 2 },
  { name: 'register_mint', plan: planRegisterMint, weight: 2, aim: 3 },
  { name: 'deposit', plan: planDeposit, weight: 12, aim: 5 },
  { name: 'settle', plan: planSettle, weight: 16, aim: 12 },
  { name: 'anchor', plan: planAnchor, weight: 2, aim: 2 },
  { name: 'request_exit', plan: planRequestExit, weight: 14, aim: 5 },
  { name: 'refuse_exit', plan: planRefuseExit, weight: 4, aim: 4 },
  { name: 'freeze', plan: planFreeze, weight: 1, aim: 4 },
  { name: 'close_exit', plan: planCloseExit, weight: 4, aim: 5 },
  { name: 'claim_escape', plan: planClaimEscape, weight: 12, aim: 6 },
  { name: 'challenge_escape', plan: planChallengeEscape, weight: 4, aim: 5 },
  { name: 'pay_escape', plan: planPayEscape, weight: 10, aim: 8 },
  { name: 'redirect_escape', plan: planRedirectEscape, weight: 4, aim: 4 },
  { name: 'declare_outage', plan: planDeclareOutage, weight: 1, aim: 2 },
  { name: 'pay', plan: planPay, weight: 8, aim: 10 },
  { name: 'refund', plan: planRefund, weight: 3, aim: 4 },
  { name: 'grow_queue', plan: planGrowQueue, weight: 1, aim: 2 },
  { name: 'forged request_exit', plan: planForgedRequest, weight: 0, aim: 2 },
  { name: 'forged refuse_exit', plan: planForgedRefusal, weight: 0, aim: 2 },
  { name: 'set_admin', plan: planSetAdmin, weight: 1, aim: 2 },
  { name: 'authorize_restore', plan: planAuthorizeRestore, weight: 1, aim: 1 },
  { name: 'announce', plan: planAnnounce, weight: 4, aim: 6 },
  { name: 'register_platform', plan: planRegisterPlatform, weight: 2, aim: 3 },
  { name: 'open_attested_epoch', plan: planOpenAttestedEpoch, weight: 3, aim: 6 },
  { name: 'pause', plan: planPause, weight: 1, aim: 1 },
  { name: 'unpause', plan: planUnpause, weight: 14, aim: 1 },
]
