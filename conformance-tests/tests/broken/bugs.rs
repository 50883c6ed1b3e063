//! One bug a switch.

use ledger_core::decide::Decision;
use ledger_core::{
    Advanced, Basis, Claim, Claimed, EventKind, Generation, Json, Judged, Lease, Mark, NewEvent, OwnEvent, Position,
    Renewal, Standing, Timestamp, Ttl, Vacancy,
};
use std::sync::Arc;

/// What is wrong with a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bug {
    CheckAndWriteInTwoSteps,
    HolderNotCompared,
    AcquisitionNotCompared,
    GenerationNotCompared,
    LaterGenerationAccepted,
    ValidAtExpiry,
    ExpiryNotCompared,
    ExpiryJudgedFirst,
    ExpiryNotRecorded,
    ClockReadBeforeTheLock,
    ClockStepBackBelieved,
    GenerationReusedAfterRelease,
    GenerationResetOnReopen,
    GenerationResetByRelease,
    GenerationReusedForTheSameName,
    AcquisitionKeptForTheSameName,
    ObservationIgnored,
    LiveLeaseTakenByTheSameName,
    AcquisitionsForgotten,
    LeaseCachedInTheHandle,
    RenewalRevives,
    RenewalShortens,
    LateReleaseEndsTheSuccessor,
    RefusalUsesUpAPosition,
    ReplayUsesUpAPosition,
    PositionsRestartAtATakeover,
    BatchWrittenInTwoSteps,
    AnswerIsNotWhatIsStored,
    IdsNotLookedUp,
    IdsComparedWithoutContent,
    IdsForgottenAfterAThousand,
    IdsScopedToTheLedger,
    ReplayBeforeTheFence,
    RefusalWithoutRecord,
    RecordRolledBackWithTheWrite,
    RecordsInMemory,
    RecordsWithoutBound,
    RepeatsCountedTwice,
    RefusalsQueueForTheLock,
    NeverByTheClockAlone,
    OwnEventsHidden,
    PayloadsReadAsValues,
    NamesFolded,
    TakenOneMomentTooEarly,
    NotTakenAtExpiry,
    LedgerNotCompared,
    ReleaseNotCompared,
    DivergenceNotSeen,
    OperatorNeedsNoObservation,
    RenewalAddsToTheOldExpiry,
    RenewalKeepsItsTtl,
    RenewalTellsTheHeadOfTheLease,
    RenewalWithoutRevision,
    ReleaseAfterExpiryIsWritten,
    SuccessionNotKept,
    GenerationSharedByAllPartitions,
    ExpectationIgnored,
    BatchReversed,
    BatchCutAtAThousand,
    PayloadCut,
    LargeAppendsNotWritten,
    KindsFolded,
    RefusalNamesNobody,
    BusyAtOnce,
    LockKeptByADroppedCall,
    ClaimsUnknownToFate,
    FateOnlyUnderItsOwnGeneration,
    AbsentIsNever,
    EarlierTenureStaysUndecided,
    ReadsWaitForTheLock,
    ReadsServedFromASnapshot,
    ReadStartsAfterThePosition,
    BackwardReadKeepsBatchesForward,
    AheadOfTheLogIsEmpty,
    PageBytesIgnored,
    LargeEventBlocks,
    UnpolledReadHoldsTheLock,
    EmptyPageOfAKindIsTheEnd,
    ObservedInTwoSteps,
    ListingStartsAtThePosition,
    AskingListsAName,
    IdentityOfEachHandle,
    CloseTakesTheLastEntry,
    LeaseLostOnReopen,
    RemarkNotKept,
    LastRemarkOfAKey,
    SentBeforeItIsRecorded,
    SecondRequestSends,
    KeyOfAnotherRequestAccepted,
    IdsForgottenWithTheTenure,
    UnknownTreatedAsFailed,
    SettledOneChanges,
    OwnerChangesTheState,
    SentAgainUnderAnotherKey,
    LateAnswerSettles,
    OpenOnesOfTheNewestPage,
    LastSenderShownAsTheFirst,
    HandoverOfTheNewest,
    HandoverNamesNoBasis,
    HandoverAsOfNow,
    OnlyThePredecessorsRequests,
    RejectionsOfAnybody,
    GenerationsWrap,
    AcknowledgedBeforeDurable,
    HalfOfAFailedWriteStays,
    LostRecordNotTold,
    LostLineToldAsRefusal,
    CommitOutsideTheLock,
    ReleaseWithoutEffect,
    ExpectationOffByOne,
    IdsLostOnReopen,
    FenceSkippedForBatches,
    ReadDropsTheLast,
    OldGenerationsHidden,
    AppendExtendsTheLease,
    AdvanceNotLookedUp,
    AdvanceUnderAnyId,
    AdvanceAboveTheStoredAlone,
    AdvanceOfTheRowAlone,
    AdvanceKeepsTheTenure,
    AdvanceWraps,
    AdvanceFromTheRow,
    AdvancesNotToldInHandover,
    WitnessNotAsked,
    PositionsComparedAlone,
    AcknowledgedForgotten,
    AdvanceLiftsNoMark,
    MarksGoBack,
    WitnessFailsOpen,
    ShadowWithoutAMark,
    ShadowJudgesByItself,
    ShadowWithoutALeaseIsSilent,
    ShadowClaimsBeforeItIsRefused,
    ShadowClaimsWhereOthersEnforced,
}

/// A call that is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call<'a> {
    Append(&'a Lease),
    Renew(&'a Lease),
    Release(&'a Lease),
    Claim(&'a Claim),
    EndTenure,
    Advance,
}

impl<'a> Call<'a> {
    pub(crate) fn lease(self) -> Option<&'a Lease> {
        match self {
            Self::Append(lease) | Self::Renew(lease) | Self::Release(lease) => Some(lease),
            Self::Claim(_) | Self::EndTenure | Self::Advance => None,
        }
    }
}

impl Bug {
    /// What the judgement sees of a partition and of the clock.
    pub(crate) fn misjudge(self, standing: &mut Standing, call: Call<'_>, clock: Timestamp) -> Timestamp {
        let expiry = standing.lease.expires_at;
        let just_before = |time: Timestamp| Timestamp::from_micros(time.as_micros() - 1);
        match (self, call) {
            (Self::ValidAtExpiry, Call::Append(_)) if clock == expiry => just_before(expiry),
            (Self::ExpiryNotCompared, Call::Append(_)) | (Self::RenewalRevives, Call::Renew(_)) => {
                // The expiry is moved, for this judgement, and not the time: that one may not go back.
                standing.lease.expires_at = Timestamp::from_micros(i64::MAX);
                clock
            }
            (Self::LiveLeaseTakenByTheSameName, Call::Claim(claim)) if claim.holder == standing.lease.holder => {
                standing.lease.vacancy = Some(Vacancy::Released);
                clock
            }
            (Self::TakenOneMomentTooEarly, Call::Claim(_)) if just_before(expiry) == clock => {
                standing.lease.expires_at = clock;
                clock
            }
            (Self::NotTakenAtExpiry, Call::Claim(_)) if clock == expiry => {
                standing.lease.expires_at = Timestamp::from_micros(expiry.as_micros() + 1);
                clock
            }
            (Self::ReleaseAfterExpiryIsWritten, Call::Release(_)) => {
                standing.lease.expires_at = Timestamp::from_micros(i64::MAX);
                clock
            }
            (Self::GenerationsWrap, Call::Claim(_)) if standing.lease.generation == Generation::MAX => {
                standing.lease.generation = Generation::FIRST;
                if let Some(tip) = &mut standing.tip {
                    Arc::make_mut(tip).generation = Generation::FIRST;
                }
                clock
            }
            (Self::ReleaseNotCompared, Call::Append(_)) => {
                standing.lease.vacancy = None;
                clock
            }
            (Self::DivergenceNotSeen, _) => {
                let lease = &mut standing.lease;
                if let Some(tip) = standing.tip.as_mut().map(Arc::make_mut) {
                    (tip.generation, tip.acquisition, tip.holder) =
                        (lease.generation, lease.acquisition, lease.holder.clone());
                    (lease.head, lease.chain) = (tip.last, tip.chain);
                }
                clock
            }
            (Self::ClockStepBackBelieved, Call::Append(_) | Call::Claim(_)) => {
                standing.lease.recorded_at = clock;
                if let Some(tip) = &mut standing.tip {
                    Arc::make_mut(tip).recorded_at = clock;
                }
                clock
            }
            _ => clock,
        }
    }

    /// What the judgement sees of a lease.
    pub(crate) fn presented(bug: Option<Self>, lease: &Lease, standing: Option<&Standing>) -> Lease {
        let mut lease = lease.clone();
        let (Some(bug), Some(standing)) = (bug, standing) else { return lease };
        let current = &standing.lease;
        match bug {
            Self::HolderNotCompared => lease.holder = current.holder.clone(),
            Self::AcquisitionNotCompared => lease.acquisition = current.acquisition,
            Self::GenerationNotCompared => {
                lease.generation = current.generation;
                lease.acquisition = current.acquisition;
                lease.holder = current.holder.clone();
            }
            Self::LaterGenerationAccepted => lease.generation = lease.generation.min(current.generation),
            Self::ExpiryJudgedFirst if standing.recorded_at() >= current.expires_at => {
                lease.generation = current.generation;
                lease.acquisition = current.acquisition;
                lease.holder = current.holder.clone();
            }
            _ => {}
        }
        lease
    }

    /// Gives to a claim what the store should not: a generation, an acquisition or a position.
    pub(crate) fn claimed(self, decision: &mut Decision<Claimed>, standing: Option<&Standing>, partitions: usize) {
        match (self, standing) {
            (Self::AcquisitionKeptForTheSameName, Some(standing)) => keep_acquisition(decision, standing),
            (Self::PositionsRestartAtATakeover, Some(_)) => restart_positions(decision),
            _ => self.give_generation(decision, standing, partitions),
        }
    }

    fn give_generation(self, decision: &mut Decision<Claimed>, standing: Option<&Standing>, partitions: usize) {
        let is_same = |standing: &Standing| {
            let claimed = decision.answer.as_ref();
            claimed.is_ok_and(|claimed| claimed.lease.holder == standing.lease.holder)
        };
        let again = match (self, standing) {
            (Self::GenerationReusedAfterRelease, Some(standing))
                if standing.lease.vacancy == Some(Vacancy::Released) =>
            {
                standing.lease.generation
            }
            (Self::GenerationResetByRelease, Some(standing)) if standing.lease.vacancy == Some(Vacancy::Released) => {
                Generation::FIRST
            }
            (Self::GenerationReusedForTheSameName, Some(standing)) if is_same(standing) => standing.lease.generation,
            (Self::GenerationSharedByAllPartitions, None) => {
                let number = i64::try_from(partitions + 1).expect("cases make few partitions");
                Generation::new(number).expect("it counts from 1")
            }
            _ => return,
        };
        if let Ok(claimed) = &mut decision.answer {
            claimed.lease.generation = again;
        }
        if let Some(lease) = &mut decision.write.lease {
            lease.generation = again;
        }
        if let Some((entry, _)) = &mut decision.write.entry {
            Arc::make_mut(entry).generation = again;
        }
    }

    /// Advances otherwise than the contract says.
    pub(crate) fn advanced(self, decision: &mut Decision<Advanced>, standing: Option<&Standing>) {
        match (self, &mut decision.answer) {
            // As if the row were set by hand.
            (Self::AdvanceOfTheRowAlone, Ok(_)) if standing.is_some() => decision.write.entry = None,
            (Self::AdvanceKeepsTheTenure, Ok(_)) => {
                if let (Some(lease), Some(standing)) = (&mut decision.write.lease, standing) {
                    lease.vacancy = None;
                    lease.expires_at = standing.lease.expires_at;
                }
            }
            (Self::AdvanceFromTheRow, Ok(answer)) => {
                if let (Some((entry, _)), Some(standing)) = (&mut decision.write.entry, standing) {
                    let next = standing.lease.head.max(standing.head()).next().unwrap_or(Position::MAX);
                    let entry = Arc::make_mut(entry);
                    (entry.first, entry.last, answer.position) = (next, next, next);
                }
            }
            (Self::AdvanceWraps, answer @ Err(_)) => {
                if let Some(standing) = standing {
                    let mark = Mark::new(Generation::FIRST, standing.head(), standing.chain());
                    *answer = Ok(Advanced::new(
                        mark,
                        false,
                        Judged::new(Timestamp::from_micros(0), standing.revision(), false),
                    ));
                } else {
                    let mark = Mark::new(Generation::FIRST, Position::FIRST, ledger_core::Digest::new([0; 32]));
                    *answer = Ok(Advanced::new(
                        mark,
                        false,
                        Judged::new(Timestamp::from_micros(0), Default::default(), false),
                    ));
                }
            }
            _ => {}
        }
    }

    /// Renews otherwise than the contract says.
    pub(crate) fn renewed(self, decision: &mut Decision<Renewal>, standing: Option<&Standing>, ttl: Option<Ttl>) {
        let (Ok(renewal), Some(lease), Some(standing)) = (&mut decision.answer, &mut decision.write.lease, standing)
        else {
            return;
        };
        let asked = ttl.unwrap_or(lease.ttl);
        match self {
            Self::RenewalShortens => lease.expires_at = renewal.judged.time.after(asked),
            Self::RenewalAddsToTheOldExpiry => lease.expires_at = standing.lease.expires_at.after(asked),
            Self::RenewalKeepsItsTtl => lease.ttl = asked,
            Self::RenewalTellsTheHeadOfTheLease => renewal.head = standing.lease.head,
            Self::RenewalWithoutRevision => {
                lease.renewals = standing.lease.renewals;
                renewal.judged.revision = standing.revision();
            }
            _ => {}
        }
        (renewal.lease.expires_at, renewal.lease.ttl) = (lease.expires_at, lease.ttl);
    }

    /// What is stored of the events of an entry.
    pub(crate) fn stored(self, events: Arc<[NewEvent]>) -> Arc<[NewEvent]> {
        match self {
            Self::PayloadsReadAsValues => events.iter().map(through_values).collect(),
            Self::PayloadCut => events
                .iter()
                .map(|event| {
                    let cut: String = event.payload.as_str().chars().take(65_000).collect();
                    NewEvent::new(event.kind.clone(), Json::stored(cut)).with_metadata(event.metadata.clone())
                })
                .collect(),
            Self::KindsFolded => events
                .iter()
                .map(|event| {
                    let kind = EventKind::stored(event.kind.as_str().to_lowercase());
                    let kind = kind.unwrap_or_else(|_| event.kind.clone());
                    NewEvent::new(kind, event.payload.clone()).with_metadata(event.metadata.clone())
                })
                .collect(),
            Self::BatchReversed => events.iter().rev().cloned().collect(),
            Self::BatchCutAtAThousand => events.iter().take(1_000).cloned().collect(),
            Self::SuccessionNotKept => events.iter().map(without_succession).collect(),
            _ => events,
        }
    }
}

/// The claim of who had the lease before goes under the acquisition of before.
fn keep_acquisition(decision: &mut Decision<Claimed>, standing: &Standing) {
    let (holder, acquisition) = (&standing.lease.holder, standing.lease.acquisition);
    let (Ok(claimed), Some(lease), Some((entry, _))) =
        (&mut decision.answer, &mut decision.write.lease, &mut decision.write.entry)
    else {
        return;
    };
    if claimed.lease.holder == *holder {
        let entry = Arc::make_mut(entry);
        (claimed.lease.acquisition, lease.acquisition, entry.acquisition) = (acquisition, acquisition, acquisition);
        entry.id = Some(acquisition.into());
    }
}

/// The claim stands at the first position again.
fn restart_positions(decision: &mut Decision<Claimed>) {
    let (Ok(claimed), Some(lease), Some((entry, _))) =
        (&mut decision.answer, &mut decision.write.lease, &mut decision.write.entry)
    else {
        return;
    };
    let entry = Arc::make_mut(entry);
    (claimed.head, lease.head) = (Position::FIRST, Position::FIRST);
    (entry.first, entry.last) = (Position::FIRST, Position::FIRST);
}

/// What a JSON column makes of an event.
fn through_values(event: &NewEvent) -> NewEvent {
    let through_value = |json: &Json| {
        let value: Option<serde_json::Value> = json.decode().ok();
        value.and_then(|value| Json::of(&value).ok()).unwrap_or_else(|| json.clone())
    };
    NewEvent::new(event.kind.clone(), through_value(&event.payload)).with_metadata(through_value(&event.metadata))
}

/// A `$claimed` that says that nobody was before.
fn without_succession(event: &NewEvent) -> NewEvent {
    match OwnEvent::read(&event.kind, &event.payload) {
        Ok(Some(OwnEvent::Claimed(mut succession))) => {
            (succession.previous, succession.basis) = (None, Basis::First);
            OwnEvent::Claimed(succession).to_new_event()
        }
        _ => event.clone(),
    }
}
