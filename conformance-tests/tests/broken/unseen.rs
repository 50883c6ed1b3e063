//! Why the random run does not find what it does not find: for each such ledger one reason.

use crate::bugs::Bug;

/// Why a random run can not find a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// It takes two calls at once.
    AtOnce,
    /// It takes a fault.
    Fault,
    /// It takes a store that was edited.
    Edited,
    /// It takes more than a run sends.
    Size,
    /// The ledger is right.
    Above,
}

impl Unseen {
    pub(crate) const ALL: [Self; 5] = [Self::AtOnce, Self::Fault, Self::Edited, Self::Size, Self::Above];

    /// As the page shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::Fault => "fault",
            Self::Edited => "edited",
            Self::Size => "size",
            Self::Above => "above",
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::AtOnce => {
                "shows where two calls are under way at once, or one waits for a lock; the random run makes one call \
                 after the other"
            }
            Self::Fault => "shows after a crash, a write that fails or an answer that is lost; the random run has none",
            Self::Edited => {
                "shows where log and lease contradict each other, as after an edit by hand; nobody edits the store of a \
                 random run"
            }
            Self::Size => "shows beyond a size or a number that an episode of 60 small operations does not reach",
            Self::Above => {
                "is a mistake in what is built over a ledger (requests, handovers, a witness, a shadow); the random run \
                 compares ledgers"
            }
        }
    }

    /// The reason of a bug.
    pub(crate) fn of(bug: Bug) -> Option<Self> {
        UNSEEN.iter().find(|(_, bugs)| bugs.contains(&bug)).map(|(reason, _)| *reason)
    }
}

const UNSEEN: &[(Unseen, &[Bug])] = &[
    (
        Unseen::AtOnce,
        &[
            Bug::CheckAndWriteInTwoSteps,
            Bug::ClockReadBeforeTheLock,
            Bug::BatchWrittenInTwoSteps,
            Bug::RefusalsQueueForTheLock,
            Bug::BusyAtOnce,
            Bug::LockKeptByADroppedCall,
            Bug::ReadsWaitForTheLock,
            Bug::ObservedInTwoSteps,
            Bug::CommitOutsideTheLock,
            Bug::UnpolledReadHoldsTheLock,
        ],
    ),
    (
        Unseen::Fault,
        &[
            Bug::AcknowledgedBeforeDurable,
            Bug::HalfOfAFailedWriteStays,
            Bug::LostRecordNotTold,
            Bug::LostLineToldAsRefusal,
        ],
    ),
    (Unseen::Edited, &[Bug::AdvanceFromTheRow]),
    (
        Unseen::Size,
        &[
            Bug::IdsForgottenAfterAThousand,
            Bug::RecordsWithoutBound,
            Bug::BatchCutAtAThousand,
            Bug::PayloadCut,
            Bug::LargeAppendsNotWritten,
        ],
    ),
    (
        Unseen::Above,
        &[
            Bug::SentBeforeItIsRecorded,
            Bug::SecondRequestSends,
            Bug::KeyOfAnotherRequestAccepted,
            Bug::UnknownTreatedAsFailed,
            Bug::SettledOneChanges,
            Bug::OwnerChangesTheState,
            Bug::SentAgainUnderAnotherKey,
            Bug::LateAnswerSettles,
            Bug::OpenOnesOfTheNewestPage,
            Bug::LastSenderShownAsTheFirst,
            Bug::HandoverOfTheNewest,
            Bug::HandoverNamesNoBasis,
            Bug::HandoverAsOfNow,
            Bug::OnlyThePredecessorsRequests,
            Bug::RejectionsOfAnybody,
            Bug::AdvancesNotToldInHandover,
            Bug::WitnessNotAsked,
            Bug::PositionsComparedAlone,
            Bug::AcknowledgedForgotten,
            Bug::AdvanceLiftsNoMark,
            Bug::MarksGoBack,
            Bug::WitnessFailsOpen,
            Bug::ShadowWithoutAMark,
            Bug::ShadowJudgesByItself,
            Bug::ShadowWithoutALeaseIsSilent,
            Bug::ShadowClaimsBeforeItIsRefused,
            Bug::ShadowClaimsWhereOthersEnforced,
        ],
    ),
];
