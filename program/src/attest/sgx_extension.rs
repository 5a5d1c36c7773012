//! Reads the SGX extension of a PCK certificate (Intel's certificate profile, 1.3.5): members 1 to 7 and the components 1 to 18
//! of the TCB, in order and nothing more.
use super::certificate::SGX;
use super::der::*;
use crate::error::*;

pub struct SgxExtension {
    pub ppid: *const u8,
    pub fmspc: *const u8,
    pub components: [u8; 16],
    pub pce_svn: u16,
}

/// A member: its object identifier, which ends in `path`, and the value behind it.
#[inline(never)]
fn member(list: &mut Der, path: &[u8]) -> Result<Der, Fault> {
    let mut member = list.item(SEQUENCE)?;
    let kind = member.item(OID)?;
    let named = kind.starts_with(SGX) && kind.left == SGX.len() + path.len() && kind.ends_with(path);
    require(named, INVALID_SGX_EXTENSION)?;
    Ok(member)
}

fn octets(list: &mut Der, path: &[u8], length: usize) -> Result<*const u8, Fault> {
    let mut value = member(list, path)?;
    let at = value.sized(OCTETS, length)?;
    value.end()?;
    Ok(at)
}

#[inline(never)]
pub fn read(mut value: Der) -> Result<SgxExtension, Fault> {
    let mut members = value.item(SEQUENCE)?;
    value.end()?;
    let ppid = octets(&mut members, &[1], 16)?;
    let mut tcb = member(&mut members, &[2])?;
    let mut list = tcb.item(SEQUENCE)?;
    tcb.end()?;
    let mut components = [0; 16];
    let mut number = 0;
    while number < 16 {
        let mut one = member(&mut list, &[2, number as u8 + 1])?;
        components[number] = one.integer(0xff)? as u8;
        one.end()?;
        number += 1;
    }
    let mut pce = member(&mut list, &[2, 17])?;
    let pce_svn = pce.integer(0xffff)? as u16;
    pce.end()?;
    octets(&mut list, &[2, 18], 16)?;
    list.end()?;
    octets(&mut members, &[3], 2)?;
    let fmspc = octets(&mut members, &[4], 6)?;
    let mut kind = member(&mut members, &[5])?;
    kind.sized(ENUMERATED, 1)?;
    kind.end()?;
    octets(&mut members, &[6], 16)?;
    let mut configuration = member(&mut members, &[7])?;
    configuration.item(SEQUENCE)?;
    configuration.end()?;
    members.end()?;
    Ok(SgxExtension { ppid, fmspc, components, pce_svn })
}
